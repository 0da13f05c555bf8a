// The official SDK 2.x's client over its own stdio transport, in the era that the plan says: see client_plan.mjs.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { runPlan } from './client_plan.mjs';

await runPlan({
	async connect({ command, args, env, capabilities, era }, { onNotification, onRequest, onClose, onError }) {
		const mode = era === 'modern' ? { pin: '2026-07-28' } : era;
		const client = new Client({ name: 'sdk2', version: '2' }, { capabilities, versionNegotiation: { mode } });
		client.fallbackNotificationHandler = async n => onNotification(n);
		for (const method of ['sampling/createMessage', 'elicitation/create', 'roots/list'])
			client.setRequestHandler(method, async ({ params }) => onRequest(method, params));
		client.onclose = onClose;
		client.onerror = onError;
		await client.connect(new StdioClientTransport({ command, args, env, stderr: 'inherit' }));
		return client;
	},
	call: (client, params, options) => client.callTool(params, options),
});

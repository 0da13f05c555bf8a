// The official SDK 1.x's client over its own stdio transport: see client_plan.mjs.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { CallToolResultSchema, CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { runPlan } from './client_plan.mjs';

await runPlan({
	async connect({ command, args, env, capabilities }, { onNotification, onRequest, onClose, onError }) {
		const client = new Client({ name: 'sdk1', version: '1' }, { capabilities });
		client.fallbackNotificationHandler = async n => onNotification(n);
		for (const schema of [CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema])
			client.setRequestHandler(schema, async ({ method, params }) => onRequest(method, params));
		client.onclose = onClose;
		client.onerror = onError;
		await client.connect(new StdioClientTransport({ command, args, env, stderr: 'inherit' }));
		return client;
	},
	call: (client, params, options) => client.callTool(params, CallToolResultSchema, options),
	async task(client, { name, arguments: args }) {
		const { tasks } = client.experimental;
		const seen = [];
		let result, id;
		for await (const message of tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, { task: { ttl: 60000 } })) {
			if (message.type === 'taskCreated') id = message.task.taskId;
			if (message.type === 'taskStatus' && seen.at(-1) !== message.task.statusMessage) seen.push(message.task.statusMessage);
			if (message.type === 'result') result = message.result;
			if (message.type === 'error') throw message.error;
		}
		const again = await tasks.getTaskResult(id, CallToolResultSchema);
		const canList = client.getServerCapabilities().tasks.list;
		const listed = canList && (await tasks.listTasks()).tasks.some(t => t.taskId === id);
		return { seen, result, again, own: (await tasks.getTask(id)).status, ...(canList && { listed }) };
	},
});

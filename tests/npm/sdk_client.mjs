// What the official SDK's client gets straight from a stdio server: the yardstick for what comes through mcpd.
//
//     sdk_client.mjs < {"command": .., "args": [..], "requests": [{"method": .., "params": {..}}, ..]}
//
// prints one JSON array: for each request {"result": ..} or {"error": {code, message}}, as the server sent it.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { z } from 'zod';

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { command, args, env, requests } = JSON.parse(Buffer.concat(chunks).toString());

const client = new Client({ name: 'yardstick', version: '1' }, { capabilities: { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } } });
await client.connect(new StdioClientTransport({ command, args, env: { ...process.env, ...env }, stderr: 'ignore' }));
const anything = z.object({}).passthrough();
const answers = [];
for (const { method, params } of requests) {
	try {
		answers.push({ result: await client.request({ method, params }, anything) });
	} catch (e) {
		answers.push({ error: { code: e.code, message: e.message } });
	}
}
process.stdout.write(JSON.stringify(answers));
await client.close();

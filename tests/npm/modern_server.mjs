// A server made with the official SDK 2.x over Streamable HTTP, or over stdio, for the tests of the 2026-07-28 era.
//
//     PORT=.. [LEGACY=reject] node modern_server.mjs      LEGACY=reject: 2026-07-28 only; else both eras
//     node modern_server.mjs                              stdio
//
// Tools: echo {text}; slow {ms} (ends early when cancelled; `started` and `cancelled` tell how many were); progress {steps}; set-extra {name} (adds a tool: a list change);
// touch {uri} (a resource was updated); pid.
import { createServer } from 'node:http';
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

let extra = null, started = 0, cancelled = 0;
const text = t => ({ content: [{ type: 'text', text: String(t) }] });

function make() {
	const server = new McpServer({ name: 'modern', version: '1.0.0' }, { capabilities: { tools: { listChanged: true }, resources: { subscribe: true } } });
	server.registerTool('echo', { description: 'echoes', inputSchema: z.object({ text: z.string() }) }, async ({ text: t }) => text(t));
	server.registerTool('pid', { description: 'process id' }, async () => text(process.pid));
	server.registerTool('cancelled', { description: 'slow calls that were cancelled' }, async () => text(cancelled));
	server.registerTool('started', { description: 'slow calls that have begun' }, async () => text(started));
	server.registerTool('slow', { description: 'waits', inputSchema: z.object({ ms: z.number() }) }, async ({ ms }, ctx) => {
		started++;
		const signal = ctx.mcpReq?.signal ?? ctx.signal;
		await new Promise(done => {
			const timer = setTimeout(done, ms);
			signal?.addEventListener('abort', () => { cancelled++; clearTimeout(timer); done(); });
		});
		return text('waited');
	});
	server.registerTool('progress', { description: 'reports progress', inputSchema: z.object({ steps: z.number() }) }, async ({ steps }, ctx) => {
		const token = ctx.mcpReq?._meta?.progressToken ?? ctx._meta?.progressToken;
		for (let i = 1; token !== undefined && i <= steps; i++)
			await (ctx.mcpReq?.notify ?? ctx.sendNotification)({ method: 'notifications/progress', params: { progressToken: token, progress: i, total: steps } });
		return text('done');
	});
	server.registerTool('set-extra', { description: 'adds a tool', inputSchema: z.object({ name: z.string() }) }, async ({ name }) => {
		extra = name;
		setImmediate(() => handler.notify.toolsChanged());
		return text('set');
	});
	server.registerTool('touch', { description: 'updates a resource', inputSchema: z.object({ uri: z.string() }) }, async ({ uri }) => {
		if (handler) handler.notify.resourceUpdated(uri);
		else await server.server.sendResourceUpdated({ uri });
		return text('touched');
	});
	server.registerResource('note', 'note://one', {}, async uri => ({ contents: [{ uri: uri.href, text: 'a note' }] }));
	if (extra) server.registerTool(extra, { description: 'extra' }, async () => text('extra'));
	return server;
}

const options = process.env.LEGACY === 'reject' ? { legacy: 'reject' } : {};
const handler = process.env.PORT ? createMcpHandler(make, options) : null;

if (!handler) serveStdio(make, options);
else createServer(async (req, res) => {
	const chunks = [];
	for await (const chunk of req) chunks.push(chunk);
	const gone = new AbortController();
	res.on('close', () => { if (!res.writableEnded) gone.abort(); });
	const request = new Request('http://127.0.0.1' + req.url, { method: req.method, headers: req.headers, signal: gone.signal,
		body: chunks.length ? Buffer.concat(chunks) : undefined });
	try {
		const response = await handler.fetch(request);
		res.writeHead(response.status, Object.fromEntries(response.headers));
		res.flushHeaders();
		if (response.body) for await (const chunk of response.body) res.write(chunk);
	} catch (e) {
		if (!res.headersSent) res.writeHead(500);
	}
	res.end();
}).listen(Number(process.env.PORT), '127.0.0.1', () => console.error(`listening on port ${process.env.PORT}`));

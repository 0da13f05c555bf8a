// A server over stdio with everything that the scenarios of the official conformance suite (server mode) ask of one, and that the
// tests of clients ask for besides: made with the official SDK 2.x, so that what it answers is what the protocol's authors meant.
//
//     reference_server.mjs [both|modern|legacy]
//
// both (default): in the era that the client opens with; modern: 2026-07-28 only; legacy: 2024-11-05 to 2025-11-25 only, as a server
// made before there was another one.
//
// Tools that want something of the client return an input-required result; towards a legacy client the SDK turns that into requests.
// Besides the fixtures of the suite (test_*, json_schema_2020_12_tool): echo {text}; pid; wait (until cancelled; `waits` tells how
// many are waiting and how many were cancelled); log_all (one message at each level); touch {uri} (a resource update).
import { McpServer, ResourceTemplate, acceptedContent, completable, createRequestStateCodec, fromJsonSchema, inputRequired,
	inputResponse } from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const mode = process.argv[2] ?? 'both';
const states = createRequestStateCodec({ key: 'the same in every process, so that any of them can go on' });
const pause = ms => new Promise(done => setTimeout(done, ms));
const text = t => ({ content: [{ type: 'text', text: typeof t === 'string' ? t : JSON.stringify(t) }] });

// One red pixel, and one sample of silence.
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC';
const WAV = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA==';
const image = { type: 'image', data: PNG, mimeType: 'image/png' };
const levels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
const watched = 'test://watched-resource';
const waits = { waiting: 0, cancelled: 0 };

const object = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required });
const form = (message, properties, required) => inputRequired.elicit({ message, requestedSchema: object(properties, required) });
const ask = (prompt, maxTokens = 100) => inputRequired.createMessage({
	messages: [{ role: 'user', content: { type: 'text', text: prompt } }], maxTokens });
const string = { type: 'string' };
const titled = name => ['1', '2', '3'].map(n => ({ const: 'value' + n, title: `${name} ${n}` }));

// What the client answered to the question `key`, or null if it has not been asked, or did not answer as the question wants.
function answered(ctx, key, kind) {
	const view = inputResponse(ctx.mcpReq.inputResponses, key);
	return view.kind === kind ? view : null;
}

// The two tools of the suite that want a form filled in, whatever is in it: which fields, and with which defaults.
const forms = {
	test_elicitation_sep1034_defaults: {
		name: { type: 'string', default: 'John Doe' },
		age: { type: 'integer', default: 30 },
		score: { type: 'number', default: 95.5 },
		status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
		verified: { type: 'boolean', default: true },
	},
	test_elicitation_sep1330_enums: {
		untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
		titledSingle: { type: 'string', oneOf: titled('Option') },
		legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
		untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
		titledMulti: { type: 'array', items: { anyOf: titled('Choice') } },
	},
};

function plainTools(server) {
	const tool = (name, run, inputSchema) => server.registerTool(name, { description: `The fixture ${name}`, inputSchema }, run);

	tool('test_simple_text', () => text('This is a simple text response for testing.'));
	tool('test_image_content', () => ({ content: [image] }));
	tool('test_audio_content', () => ({ content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }] }));
	tool('test_embedded_resource', () => ({ content: [{ type: 'resource', resource: {
		uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'This is an embedded resource content.' } }] }));
	tool('test_multiple_content_types', () => ({ content: [{ type: 'text', text: 'Multiple content types test:' }, image,
		{ type: 'resource', resource: { uri: 'test://mixed-content-resource', mimeType: 'application/json',
			text: JSON.stringify({ test: 'data', value: 123 }) } }] }));
	tool('test_error_handling', () => { throw new Error('This tool intentionally returns an error for testing'); });
	tool('test_reconnection', () => text('There is no stream to reconnect on stdio.'));
	tool('json_schema_2020_12_tool', () => text('valid'), fromJsonSchema({
		$schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object',
		$defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: string, city: string } } },
		properties: { name: string, address: { $ref: '#/$defs/address' }, contactMethod: { type: 'string', enum: ['phone', 'email'] },
			phone: string, email: string },
		allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
		if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
		then: { required: ['phone'] }, else: { required: ['email'] }, additionalProperties: false }));

	tool('echo', ({ text: t }) => text(t), z.object({ text: z.string() }));
	tool('pid', () => text(String(process.pid)));
	tool('waits', () => text(waits));
	tool('wait', async ctx => {
		waits.waiting++;
		await new Promise(done => ctx.mcpReq.signal.addEventListener('abort', done));
		waits.waiting--;
		waits.cancelled++;
		return text('cancelled');
	});
}

function talkingTools(server) {
	const tool = (name, run, inputSchema) => server.registerTool(name, { description: `The fixture ${name}`, inputSchema }, run);

	tool('test_tool_with_logging', async ctx => {
		for (const [i, line] of ['Tool execution started', 'Tool processing data', 'Tool execution completed'].entries()) {
			if (i > 0) await pause(50);
			await ctx.mcpReq.log('info', line, 'reference');
		}
		return text('logged');
	});
	tool('test_logging_tool', async ctx => {
		await ctx.mcpReq.log('info', 'only for those who want it');
		return text('logged');
	});
	tool('log_all', async ctx => {
		for (const level of levels) await ctx.mcpReq.log(level, `at ${level}`, 'reference');
		return text('logged');
	});
	tool('test_tool_with_progress', async ctx => {
		const progressToken = ctx.mcpReq._meta?.progressToken;
		for (const progress of [0, 50, 100]) {
			if (progress > 0) await pause(50);
			if (progressToken !== undefined)
				await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } });
		}
		return text('done');
	});
	tool('touch', async ({ uri }) => {
		await server.server.sendResourceUpdated({ uri });
		return text('touched');
	}, z.object({ uri: z.string() }));

	// Lists that change: each call shows or hides one entry, which the SDK announces.
	const extraTool = tool('test_extra_tool', () => text('extra'));
	const extraPrompt = server.registerPrompt('test_extra_prompt', { description: 'Comes and goes' }, () => message('extra'));
	const extraResource = server.registerResource('extra', 'test://extra', { description: 'Comes and goes' },
		uri => ({ contents: [{ uri: uri.href, text: 'extra' }] }));
	const extras = { tool: extraTool, prompt: extraPrompt, resource: extraResource };
	for (const [name, extra] of Object.entries(extras)) {
		extra.disable();
		tool(`test_trigger_${name}_change`, () => {
			extra.enabled ? extra.disable() : extra.enable();
			return text(extra.enabled ? 'shown' : 'hidden');
		});
	}
}

function askingTools(server) {
	const tool = (name, run, inputSchema) => server.registerTool(name, { description: `The fixture ${name}`, inputSchema }, run);

	tool('test_sampling', ({ prompt }, ctx) => {
		const reply = answered(ctx, 'reply', 'sampling');
		return reply ? text(`LLM response: ${reply.result.content.text}`) : inputRequired({ inputRequests: { reply: ask(prompt) } });
	}, z.object({ prompt: z.string() }));
	tool('test_elicitation', ({ message: m }, ctx) => {
		const reply = answered(ctx, 'reply', 'elicit');
		return reply ? text(`User response: action=${reply.action}, content=${JSON.stringify(reply.content)}`) :
			inputRequired({ inputRequests: { reply: form(m, { username: { type: 'string', description: "User's response" },
				email: { type: 'string', description: "User's email address" } }) } });
	}, z.object({ message: z.string() }));
	for (const [name, properties] of Object.entries(forms)) {
		tool(name, ctx => {
			const reply = answered(ctx, 'reply', 'elicit');
			return reply ? text(`Elicitation completed: action=${reply.action}, content=${JSON.stringify(reply.content)}`) :
				inputRequired({ inputRequests: { reply: form('Please fill this in', properties, []) } });
		});
	}
	tool('test_streaming_elicitation', ctx => answered(ctx, 'reply', 'elicit') ? text('answered') :
		inputRequired({ inputRequests: { reply: form('Go on?', { ok: { type: 'boolean' } }) } }));
	tool('test_missing_capability', ctx => answered(ctx, 'reply', 'sampling') ? text('answered') :
		inputRequired({ inputRequests: { reply: ask('Who are you?') } }));

	tool('test_input_required_result_elicitation', ctx => {
		const reply = acceptedContent(ctx.mcpReq.inputResponses, 'user_name', z.object({ name: z.string() }));
		return reply ? text(`Hello, ${reply.name}!`) :
			inputRequired({ inputRequests: { user_name: form('What is your name?', { name: string }) } });
	});
	tool('test_input_required_result_sampling', ctx => {
		const reply = answered(ctx, 'capital_question', 'sampling');
		return reply ? text(reply.result.content.text) :
			inputRequired({ inputRequests: { capital_question: ask('What is the capital of France?') } });
	});
	tool('test_input_required_result_list_roots', ctx => {
		const reply = answered(ctx, 'client_roots', 'roots');
		return reply ? text(reply.roots) : inputRequired({ inputRequests: { client_roots: inputRequired.listRoots() } });
	});
	tool('test_input_required_result_capabilities', ctx => {
		const can = ctx.mcpReq.envelope?.['io.modelcontextprotocol/clientCapabilities'] ?? server.server.getClientCapabilities() ?? {};
		const inputRequests = {};
		if (can.sampling) inputRequests.sampled = ask('Say something');
		if (can.elicitation) inputRequests.elicited = form('Say something', { something: string });
		return ctx.mcpReq.inputResponses ? text(Object.keys(ctx.mcpReq.inputResponses).sort()) : inputRequired({ inputRequests });
	});
}

// Those that keep something between the rounds, in a state that the client carries and must not change.
function statefulTools(server) {
	const tool = (name, run) => server.registerTool(name, { description: `The fixture ${name}` }, run);
	const confirm = { confirm: form('Please confirm', { ok: { type: 'boolean' } }) };
	const rounds = {
		test_input_required_result_request_state: [confirm],
		test_input_required_result_tampered_state: [confirm],
		test_input_required_result_multiple_inputs: [{ user_name: form('What is your name?', { name: string }),
			greeting: ask('Generate a greeting', 50), client_roots: inputRequired.listRoots() }],
		test_input_required_result_multi_round: [{ step1: form('Step 1: What is your name?', { name: string }) },
			{ step2: form('Step 2: What is your favorite color?', { color: string }) }],
	};
	for (const [name, questions] of Object.entries(rounds)) {
		tool(name, async ctx => {
			const state = ctx.mcpReq.requestState() ?? { round: 0, answers: [] };
			const asked = Object.keys(questions[state.round - 1] ?? {});
			const complete = asked.length > 0 && asked.every(key => inputResponse(ctx.mcpReq.inputResponses, key).kind !== 'missing');
			if (complete) state.answers.push(...asked.map(key => inputResponse(ctx.mcpReq.inputResponses, key)));
			if (complete && state.round === questions.length) return text(`state-ok ${JSON.stringify(state.answers)}`);
			const round = complete || state.round === 0 ? state.round + 1 : state.round;
			return inputRequired({ inputRequests: questions[round - 1], requestState: await states.mint({ ...state, round }) });
		});
	}
}

const message = (...content) => ({ messages: content.map(c => ({ role: 'user',
	content: typeof c === 'string' ? { type: 'text', text: c } : c })) });

function prompts(server) {
	const word = description => completable(z.string().describe(description),
		value => ['paris', 'park', 'party', 'test', 'tests'].filter(w => w.startsWith(value)));
	server.registerPrompt('test_simple_prompt', { description: 'A simple prompt' }, () => message('This is a simple prompt for testing.'));
	server.registerPrompt('test_prompt_with_arguments', { description: 'A prompt with arguments',
		argsSchema: z.object({ arg1: word('First test argument'), arg2: word('Second test argument') }) },
	({ arg1, arg2 }) => message(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`));
	server.registerPrompt('test_prompt_with_embedded_resource', { description: 'A prompt with a resource',
		argsSchema: z.object({ resourceUri: z.string().describe('URI of the resource to embed') }) },
	({ resourceUri }) => message({ type: 'resource', resource: { uri: resourceUri, mimeType: 'text/plain',
		text: 'Embedded resource content for testing.' } }, 'Please process the embedded resource above.'));
	server.registerPrompt('test_prompt_with_image', { description: 'A prompt with an image' },
		() => message(image, 'Please analyze the image above.'));
	server.registerPrompt('test_input_required_result_prompt', { description: 'A prompt that asks first' }, ctx => {
		const reply = acceptedContent(ctx.mcpReq.inputResponses, 'user_context');
		return reply ? message(`In the context ${reply.context}`) :
			inputRequired({ inputRequests: { user_context: form('What context should the prompt use?', { context: string }) } });
	});
}

function resources(server, era) {
	const fixed = (name, uri, mimeType, content) => server.registerResource(name, uri, { description: `The fixture ${name}`, mimeType },
		() => ({ contents: [{ uri, mimeType, ...content }] }));
	fixed('static-text', 'test://static-text', 'text/plain', { text: 'This is the content of the static text resource.' });
	fixed('static-binary', 'test://static-binary', 'image/png', { blob: PNG });
	fixed('watched', watched, 'text/plain', { text: 'Watched' });
	const ids = { complete: { id: value => ['123', '124', '200'].filter(id => id.startsWith(value)) }, list: undefined };
	server.registerResource('template', new ResourceTemplate('test://template/{id}/data', ids),
		{ description: 'A template', mimeType: 'application/json' }, (uri, { id }) => ({ contents: [{ uri: uri.href,
			mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) }] }));
	if (era === 'legacy')
		for (const method of ['resources/subscribe', 'resources/unsubscribe']) server.server.setRequestHandler(method, () => ({}));
}

function make({ era }) {
	const server = new McpServer({ name: 'reference', title: 'The reference', version: '1.2.3' }, {
		capabilities: { tools: { listChanged: true }, prompts: { listChanged: true }, completions: {}, logging: {},
			resources: { listChanged: true, subscribe: true } },
		instructions: 'Ask for nothing but what the tests ask for.',
		requestState: { verify: states.verify },
	});
	for (const register of [plainTools, talkingTools, askingTools, statefulTools, prompts]) register(server);
	resources(server, era);
	return server;
}

if (mode === 'legacy') await make({ era: 'legacy' }).connect(new StdioServerTransport());
else serveStdio(make, { legacy: mode === 'modern' ? 'reject' : 'serve', onerror: e => console.error(e.message) });

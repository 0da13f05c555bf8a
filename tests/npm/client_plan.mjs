// What client_sdk1.mjs and client_sdk2.mjs have in common: a plan read from stdin, done with an official client step by step, and one
// JSON line on stdout for each thing observed.
//
//     {"command": .., "args": [..], "env": {..}, "era": "legacy"|"modern"|"auto", "capabilities": {..}, "roots": [..], "steps": [..]}
//
// A step is {"op": .., ..}; operations are the functions in `operations` below, and their lines {"step": op, "result"|"error": ..}, in
// which "notes" are the notifications and "questions" what the server asked meanwhile. The last line says how the connection ended.

const pause = ms => new Promise(done => setTimeout(done, ms));
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';

// The person and the model at this client: they agree to everything, in a way that shows what they were asked.
const answers = {
	'sampling/createMessage': params => ({ role: 'assistant', model: 'test-model', stopReason: 'endTurn',
		content: { type: 'text', text: `answer to ${JSON.stringify(params.messages.at(-1).content)}` } }),
	'elicitation/create': params => params.mode === 'url' ? { action: 'accept' } :
		{ action: 'accept', content: Object.fromEntries(Object.entries(params.requestedSchema.properties).map(fill)) },
};

function fill([name, p]) {
	if (p.default !== undefined) return [name, p.default];
	const options = p.enum ?? p.oneOf?.map(o => o.const) ?? p.items?.enum ?? p.items?.anyOf?.map(o => o.const);
	if (p.type === 'array') return [name, options.slice(0, p.minItems ?? 1)];
	if (options) return [name, options[0]];
	const formats = { email: 'someone@example.org', uri: 'https://example.org/', date: '2026-07-28', 'date-time': '2026-07-28T00:00:00Z' };
	return [name, { boolean: true, number: 4.5, integer: Math.max(4, p.minimum ?? 0) }[p.type] ?? formats[p.format] ?? `my ${name}`];
}

// `sdk`: {connect(order, {onNotification, onRequest}) -> client, call(client, params, options), task: {..} or null}
export async function runPlan(sdk) {
	const chunks = [];
	for await (const chunk of process.stdin) chunks.push(chunk);
	const order = JSON.parse(Buffer.concat(chunks).toString());
	let notes = [], questions = [], level;
	const arrived = [];
	const say = line => process.stdout.write(JSON.stringify(line) + '\n');
	const closed = [];
	const client = await sdk.connect(order, {
		onNotification: n => { notes.push(n); arrived.splice(0).forEach(wake => wake()); },
		onRequest: (method, params) => {
			questions.push({ method, params });
			return method === 'roots/list' ? { roots: order.roots } : answers[method](params);
		},
		onClose: () => closed.push('closed'),
		onError: e => closed.push(`error: ${e.message}`),
	});
	const meta = params => level && order.era === 'modern' ? { ...params, _meta: { [LOG_LEVEL]: level } } : params;
	const call = (params, options) => sdk.call(client, meta(params), options);
	const word = async name => (await sdk.call(client, { name, arguments: {} })).content[0].text;
	const noted = async wanted => {
		while (!notes.some(wanted)) {
			await new Promise((done, fail) => {
				const timer = setTimeout(() => fail(new Error('the notification did not come')), 10000);
				arrived.push(() => { clearTimeout(timer); done(); });
			});
		}
	};

	const operations = {
		info: () => ({ era: client.getProtocolEra?.() ?? 'legacy', capabilities: client.getServerCapabilities(), version: client.getServerVersion(), instructions: client.getInstructions() }),
		list: async ({ what }) => ({ tools: () => client.listTools(), prompts: () => client.listPrompts(), resources: () => client.listResources(),
			templates: () => client.listResourceTemplates() })[what](),
		call: async ({ name, arguments: args = {}, progress = false, logs = 0 }) => {
			const reports = [];
			const result = await call({ name, arguments: args }, progress ? { onprogress: p => reports.push(p) } : {});
			if (logs) await noted(() => notes.filter(n => n.method === 'notifications/message').length >= logs);
			return progress ? { ...result, reports } : result;
		},
		prompt: ({ name, arguments: args }) => client.getPrompt({ name, arguments: args }),
		read: ({ uri }) => client.readResource({ uri }),
		complete: ({ ref, argument, context }) => client.complete({ ref, argument, ...(context && { context }) }),
		ping: () => client.ping(),
		// A modern client says with each request which log messages it wants.
		level: async step => { level = step.level; return order.era === 'modern' ? {} : client.setLoggingLevel(level); },
		// What a legacy client gets unasked, a modern one has to listen for.
		listen: async ({ filter }) => {
			if (order.era === 'modern') return { honored: Boolean(operations.listening = await client.listen(filter)) };
			for (const uri of filter.resourceSubscriptions ?? []) await client.subscribeResource({ uri });
			return { honored: true };
		},
		unlisten: async ({ filter }) => {
			if (order.era === 'modern') await operations.listening.close();
			else for (const uri of filter.resourceSubscriptions ?? []) await client.unsubscribeResource({ uri });
			return {};
		},
		await: async ({ method, params = {} }) => {
			await noted(n => n.method === method && Object.entries(params).every(([k, v]) => n.params?.[k] === v));
			return {};
		},
		// Cancels a call of `name` that is known to be running, and sees that the server has heard of it. `waits` is the tool that knows.
		cancel: async ({ name, waits }) => {
			const before = JSON.parse(await word(waits));
			const gone = new AbortController();
			const waiting = call({ name, arguments: {} }, { signal: gone.signal }).then(result => ({ result }), e => ({ error: e.message }));
			while (JSON.parse(await word(waits)).waiting === before.waiting) await pause(10);
			gone.abort('no longer wanted');
			const outcome = await waiting;
			while (JSON.parse(await word(waits)).cancelled === before.cancelled) await pause(10);
			return outcome;
		},
		// As a call that reports progress without end, given up at its first report.
		abandon: async ({ name, arguments: args }) => {
			const gone = new AbortController();
			return call({ name, arguments: args }, { signal: gone.signal, onprogress: () => gone.abort('seen enough') })
				.then(result => ({ result }), e => ({ error: e.message }));
		},
		task: step => sdk.task(client, step),
	};

	for (const step of order.steps) {
		notes = step.op === 'await' ? notes : [];
		questions = [];
		const line = { at: Math.round(performance.now()), step: step.op, of: step.name ?? step.uri ?? step.what ?? step.method ?? step.level };
		try {
			line.result = await operations[step.op](step);
		} catch (e) {
			line.error = { code: e.code, message: e.message, data: e.data };
		}
		say({ ...line, notes, questions });
	}
	const unexpected = closed.splice(0);
	await client.close();
	say({ step: 'end', unexpected });
}

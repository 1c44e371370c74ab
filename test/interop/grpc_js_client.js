// The cases of gRPC's interoperability tests, by @grpc/grpc-js: grpc_js_client.js HOST:PORT CASE [CA_FILE], with NODE_PATH. Exit code 0: passed.
'use strict';
const assert = require('assert');
const fs = require('fs');
const grpc = require('@grpc/grpc-js');
const { number, part, payloadLength, readFields } = require('./grpc_js_fields.js');

const SERVICE = '/grpc.testing.TestService/';
const REQUESTS = [27182, 8, 1828, 45904];
const RESPONSES = [31415, 9, 2653, 58979];
const INITIAL = 'x-grpc-test-echo-initial';
const TRAILING = 'x-grpc-test-echo-trailing-bin';

const payload = (n) => part(3, part(2, Buffer.alloc(n)));
const streamed = (n) => part(1, part(2, Buffer.alloc(n)));
const unaryRequest = (size, n) => Buffer.concat([number(2, size), payload(n)]);
const streamRequest = (sizes, n, interval = 0) =>
	Buffer.concat([...sizes.map((size) => part(2, Buffer.concat([number(1, size), number(2, interval)]))), payload(n)]);
const echoStatus = (code, text) => part(7, Buffer.concat([number(1, code), part(2, Buffer.from(text))]));

const [address, name, ca] = process.argv.slice(2);
const client = new grpc.Client(
	address,
	ca ? grpc.credentials.createSsl(fs.readFileSync(ca)) : grpc.credentials.createInsecure(),
	ca ? { 'grpc.ssl_target_name_override': 'localhost' } : {},
);
const same = (bytes) => bytes;

// Both return what arrived: messages, initial and trailing metadata, and the status.
function unary(method, request, { service = SERVICE, metadata = new grpc.Metadata() } = {}) {
	return new Promise((done) => {
		const got = { messages: [] };
		const call = client.makeUnaryRequest(service + method, same, same, request, metadata, (error, message) => {
			if (message) got.messages.push(message);
		});
		call.on('metadata', (m) => (got.initial = m));
		call.on('status', (status) => setImmediate(() => done({ ...got, status, trailing: status.metadata })));
	});
}

// run: gets the call and, again and again, the messages so far.
function stream(method, run, { metadata = new grpc.Metadata(), options = {} } = {}) {
	return new Promise((done) => {
		const got = { messages: [] };
		const call = client.makeBidiStreamRequest(SERVICE + method, same, same, metadata, options);
		call.on('metadata', (m) => (got.initial = m));
		call.on('data', (message) => {
			got.messages.push(message);
			run(call, got.messages.length);
		});
		call.on('error', () => {});
		call.on('status', (status) => setImmediate(() => done({ ...got, status, trailing: status.metadata })));
		run(call, 0);
	});
}
const sends = (requests) => (call, n) => {
	if (n) return;
	requests.forEach((request) => call.write(request));
	call.end();
};
const expect = (got, code, lengths) => {
	assert.strictEqual(got.status.code, code, got.status.details);
	if (lengths) assert.deepStrictEqual(got.messages.map(payloadLength), lengths);
};

async function statusAndMessage(text) {
	const request = echoStatus(2, text);
	for (const got of [await unary('UnaryCall', request), await stream('FullDuplexCall', sends([request]))]) {
		expect(got, grpc.status.UNKNOWN);
		assert.strictEqual(got.status.details, text);
	}
}

const cases = {
	empty_unary: async () => expect(await unary('EmptyCall', Buffer.alloc(0)), 0, [0]),
	large_unary: async () => expect(await unary('UnaryCall', unaryRequest(314159, 271828)), 0, [314159]),
	async client_streaming() {
		const got = await stream('StreamingInputCall', sends(REQUESTS.map(streamed)));
		expect(got, 0);
		assert.deepStrictEqual(readFields(got.messages[0]), { 1: 74922 });
	},
	server_streaming: async () => expect(await stream('StreamingOutputCall', sends([streamRequest(RESPONSES, 0)])), 0, RESPONSES),
	ping_pong: async () =>
		expect(
			await stream('FullDuplexCall', (call, n) =>
				n < 4 ? call.write(streamRequest([RESPONSES[n]], REQUESTS[n])) : call.end(),
			),
			0,
			RESPONSES,
		),
	empty_stream: async () => expect(await stream('FullDuplexCall', sends([])), 0, []),
	async custom_metadata() {
		const metadata = new grpc.Metadata();
		metadata.set(INITIAL, 'test_initial_metadata_value');
		metadata.set(TRAILING, Buffer.from([0xab, 0xab, 0xab]));
		for (const got of [
			await unary('UnaryCall', unaryRequest(314159, 271828), { metadata }),
			await stream('FullDuplexCall', sends([streamRequest([314159], 271828)]), { metadata }),
		]) {
			expect(got, 0, [314159]);
			assert.deepStrictEqual(got.initial.get(INITIAL), ['test_initial_metadata_value']);
			assert.deepStrictEqual(got.trailing.get(TRAILING), [Buffer.from([0xab, 0xab, 0xab])]);
		}
	},
	status_code_and_message: () => statusAndMessage('test status message'),
	special_status_message: () => statusAndMessage('\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \u{1f608}\t\n'),
	unimplemented_method: async () => expect(await unary('UnimplementedCall', Buffer.alloc(0)), grpc.status.UNIMPLEMENTED),
	unimplemented_service: async () =>
		expect(
			await unary('UnimplementedCall', Buffer.alloc(0), { service: '/grpc.testing.UnimplementedService/' }),
			grpc.status.UNIMPLEMENTED,
		),
	cancel_after_begin: async () => expect(await stream('StreamingInputCall', (call) => call.cancel()), grpc.status.CANCELLED, []),
	cancel_after_first_response: async () =>
		expect(
			await stream('FullDuplexCall', (call, n) => (n ? call.cancel() : call.write(streamRequest([31415], 27182)))),
			grpc.status.CANCELLED,
			[31415],
		),
	timeout_on_sleeping_server: async () =>
		expect(
			await stream('FullDuplexCall', (call, n) => n || call.write(streamRequest([31415], 27182, 5000000)), {
				options: { deadline: Date.now() + 50 },
			}),
			grpc.status.DEADLINE_EXCEEDED,
		),
};

cases[name]().then(
	() => client.close(),
	(error) => {
		console.error(`${name}: failed: ${error.message}`);
		process.exit(1);
	},
);

// The server of gRPC's interoperability tests, by @grpc/grpc-js: grpc_js_server.js PORT [CERT KEY], with NODE_PATH. It serves until it is killed.
'use strict';
const fs = require('fs');
const grpc = require('@grpc/grpc-js');
const { number, part, payloadLength, readAll, readFields } = require('./grpc_js_fields.js');

const INITIAL = 'x-grpc-test-echo-initial';
const TRAILING = 'x-grpc-test-echo-trailing-bin';
const same = (bytes) => bytes;
const response = (n) => part(1, part(2, Buffer.alloc(n || 0)));

// Sends initial metadata back. Returns the trailing ones.
function echo(call) {
	const initial = new grpc.Metadata();
	const trailing = new grpc.Metadata();
	call.metadata.get(INITIAL).forEach((value) => initial.add(INITIAL, value));
	call.metadata.get(TRAILING).forEach((value) => trailing.add(TRAILING, value));
	call.sendMetadata(initial);
	return trailing;
}

// Returns the error that a request asks for, or null.
function errorOf(request, metadata) {
	const status = readFields(readFields(request)[7] || []);
	return status[1] ? { code: status[1], details: status[2].toString(), metadata } : null;
}

// Writes the responses that a request asks for, each after its interval, then calls done.
function respond(call, request, done) {
	const next = ([first, ...rest]) => {
		if (!first || call.cancelled) return done();
		const asked = readFields(first);
		const write = () => {
			call.write(response(asked[1]));
			next(rest);
		};
		return asked[2] ? setTimeout(write, asked[2] / 1000) : write();
	};
	next(readAll(request, 2));
}

const handlers = {
	EmptyCall: (call, done) => done(null, Buffer.alloc(0)),
	UnaryCall(call, done) {
		const trailing = echo(call);
		done(errorOf(call.request, trailing), response(readFields(call.request)[2]), trailing);
	},
	StreamingOutputCall: (call) => respond(call, call.request, () => call.end()),
	StreamingInputCall(call, done) {
		let sum = 0;
		call.on('data', (request) => (sum += payloadLength(request)));
		call.on('end', () => done(null, number(1, sum)));
	},
	FullDuplexCall(call) {
		const trailing = echo(call);
		let last = Promise.resolve();
		call.on('data', (request) => {
			const error = errorOf(request, trailing);
			if (error) call.emit('error', error);
			else last = last.then(() => new Promise((done) => respond(call, request, done)));
		});
		call.on('end', () => last.then(() => call.end(trailing)));
	},
};

const service = Object.fromEntries(
	Object.keys(handlers).map((name) => [
		name,
		{
			path: `/grpc.testing.TestService/${name}`,
			requestStream: name === 'StreamingInputCall' || name === 'FullDuplexCall',
			responseStream: name === 'StreamingOutputCall' || name === 'FullDuplexCall',
			requestSerialize: same,
			requestDeserialize: same,
			responseSerialize: same,
			responseDeserialize: same,
		},
	]),
);
const [port, cert, key] = process.argv.slice(2);
const credentials = cert
	? grpc.ServerCredentials.createSsl(null, [{ cert_chain: fs.readFileSync(cert), private_key: fs.readFileSync(key) }])
	: grpc.ServerCredentials.createInsecure();
const server = new grpc.Server();
server.addService(service, handlers);
server.bindAsync(`127.0.0.1:${port}`, credentials, (error) => {
	if (error) throw error;
});

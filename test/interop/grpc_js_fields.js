// Just enough of protobuf, for the client and the server of @grpc/grpc-js.
'use strict';

const varint = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...varint(Math.floor(n / 128))]);
const number = (field, n) => (n ? Buffer.from([...varint(field << 3), ...varint(n)]) : Buffer.alloc(0));
const part = (field, data) => Buffer.concat([Buffer.from([...varint((field << 3) | 2), ...varint(data.length)]), data]);

// Returns pairs of field and value: a number or bytes.
function readPairs(data) {
	const pairs = [];
	let at = 0;
	const next = () => {
		let n = 0;
		for (let scale = 1; ; scale *= 128) {
			n += (data[at] & 127) * scale;
			if (data[at++] < 128) return n;
		}
	};
	while (at < data.length) {
		const key = next();
		let value = next();
		if ((key & 7) === 2) {
			value = data.subarray(at, at + value);
			at += value.length;
		}
		pairs.push([key >> 3, value]);
	}
	return pairs;
}
const readFields = (data) => Object.fromEntries(readPairs(data));
const readAll = (data, field) => readPairs(data).flatMap(([key, value]) => (key === field ? [value] : []));
const payloadLength = (data) => (readFields(readFields(data)[1] || [])[2] || []).length;

module.exports = { number, part, payloadLength, readAll, readFields };

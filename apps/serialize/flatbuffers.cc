/* flatbuffers - the message in FlatBuffers, with a builder that is used again. To decode is to
 * verify the buffer and to read each scalar. Layer: apps. Threads: one. */
#include <cstring>
#include <vector>

#include "apps/serialize/coder.h"
#include "shapes_generated.h"

namespace
{

struct State {
	const shape *of;
	std::vector<item_values> values;
	flatbuffers::FlatBufferBuilder builder;
	std::vector<flatbuffers::Offset<shapes_fbs::Item>> items;
	const shapes_fbs::Tree *got;
	int64_t sum;
};

void *open_state(const shape *of)
{
	State *s = new State;

	s->of = of;
	s->values.resize(of->levels * of->items);
	for (unsigned i = 0; i < s->values.size(); i++)
		item_values_of(&s->values[i], i);
	s->items.resize(of->items);
	return s;
}

size_t encode(void *state)
{
	State *s = static_cast<State *>(state);
	flatbuffers::FlatBufferBuilder &b = s->builder;
	flatbuffers::Offset<shapes_fbs::Tree> tree = 0;

	b.Clear();
	for (unsigned l = s->of->levels; l--;) {
		for (unsigned k = 0; k < s->of->items; k++) {
			const item_values &v = s->values[l * s->of->items + k];
			auto name = b.CreateString(v.name);
			auto data = b.CreateVector(s->of->payload, s->of->len);

			s->items[k] = shapes_fbs::CreateItem(b, v.id, name, v.price, v.count, true, data);
		}
		tree = shapes_fbs::CreateTree(b, l + 1, b.CreateVector(s->items), tree);
	}
	b.Finish(tree);
	return b.GetSize();
}

void gather(void *state, uint8_t *to)
{
	State *s = static_cast<State *>(state);

	memcpy(to, s->builder.GetBufferPointer(), s->builder.GetSize());
}

int decode(void *state, const uint8_t *bytes, size_t len)
{
	State *s = static_cast<State *>(state);
	flatbuffers::Verifier verifier(bytes, len, 200, 10000000);

	if (!shapes_fbs::VerifyTreeBuffer(verifier))
		return 0;
	s->got = shapes_fbs::GetTree(bytes);
	for (const shapes_fbs::Tree *t = s->got; t; t = t->inner())
		for (const shapes_fbs::Item *item : *t->items())
			s->sum += item->id() + item->count() + static_cast<int64_t>(item->price());
	return 1;
}

size_t check(void *state)
{
	State *s = static_cast<State *>(state);
	const shapes_fbs::Tree *t = s->got;
	size_t sum = 0;

	for (unsigned l = 0, i = 0; l < s->of->levels; l++, t = t->inner()) {
		if (!t || t->id() != l + 1 || t->items()->size() != s->of->items)
			return 0;
		for (const shapes_fbs::Item *item : *t->items()) {
			size_t n = item_check(s->of, i++, item->id(), item->price(), item->count(),
					      item->name()->c_str(), item->data()->data(),
					      item->data()->size());

			if (!n || !item->flag())
				return 0;
			sum += n;
		}
	}
	return sum;
}

void close_state(void *state)
{
	delete static_cast<State *>(state);
}

} // namespace

extern "C" const coder coder_flatbuffers = {"flatbuffers", open_state, encode, gather,
					    decode,	   check,      close_state};

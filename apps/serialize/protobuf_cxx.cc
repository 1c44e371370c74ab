/* protobuf_cxx - the message in protobuf C++, with a message that is used again.
 * Layer: apps. Threads: one. */
#include <cstring>
#include <vector>

#include "apps/serialize/coder.h"
#include "shapes.pb.h"

namespace
{

struct State {
	const shape *of;
	shapes::Tree tree, got;
	std::vector<uint8_t> bytes;
};

void *open_state(const shape *of)
{
	State *s = new State{of, {}, {}, {}};
	shapes::Tree *t = &s->tree;

	for (unsigned l = 0, i = 0; l < of->levels; l++) {
		t->set_id(l + 1);
		for (unsigned k = 0; k < of->items; k++) {
			shapes::Item *item = t->add_items();
			item_values v;

			item_values_of(&v, i++);
			item->set_id(v.id);
			item->set_name(v.name);
			item->set_price(v.price);
			item->set_count(v.count);
			item->set_flag(true);
			item->set_data(of->payload, of->len);
		}
		if (l + 1 < of->levels)
			t = t->mutable_inner();
	}
	s->bytes.resize(s->tree.ByteSizeLong());
	return s;
}

size_t encode(void *state)
{
	State *s = static_cast<State *>(state);
	size_t len = s->tree.ByteSizeLong();

	s->tree.SerializeWithCachedSizesToArray(s->bytes.data());
	return len;
}

void gather(void *state, uint8_t *to)
{
	State *s = static_cast<State *>(state);

	memcpy(to, s->bytes.data(), s->bytes.size());
}

int decode(void *state, const uint8_t *bytes, size_t len)
{
	return static_cast<State *>(state)->got.ParseFromArray(bytes, static_cast<int>(len));
}

size_t check(void *state)
{
	State *s = static_cast<State *>(state);
	const shapes::Tree *t = &s->got;
	size_t sum = 0;

	for (unsigned l = 0, i = 0; l < s->of->levels; l++, t = &t->inner()) {
		if (t->id() != l + 1 || t->items_size() != static_cast<int>(s->of->items))
			return 0;
		for (const shapes::Item &item : t->items()) {
			size_t n = item_check(s->of, i++, item.id(), item.price(), item.count(),
					      item.name().c_str(),
					      reinterpret_cast<const uint8_t *>(item.data().data()),
					      item.data().size());

			if (!n || !item.flag())
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

extern "C" const coder coder_protobuf_cxx = {"protobuf_cxx", open_state, encode, gather,
					     decode,	     check,	 close_state};

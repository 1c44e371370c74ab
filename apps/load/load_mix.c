#include "apps/load/load.h"

#include <stdlib.h>

bool load_mix_parse(const char *text, uint32_t share[LOAD_KINDS])
{
	uint32_t number[LOAD_KINDS] = {0}, n = 0, sum = 0;
	char *end;

	for (; n < LOAD_KINDS; text = end + 1) {
		unsigned long value = strtoul(text, &end, 10);

		if (end == text || *text == '-' || value > 1000000)
			return false;
		number[n++] = (uint32_t)value;
		sum += (uint32_t)value;
		if (*end != '/')
			break;
	}
	if (*end || n < LOAD_KINDS - 1 || sum == 0)
		return false;
	share[LOAD_HOME] = number[0];
	share[LOAD_USER] = number[1];
	share[LOAD_GET_MEDIA] = n == LOAD_KINDS ? number[2] : 0;
	share[LOAD_COMPOSE] = number[n - 1];
	return true;
}

static enum load_kind draw_kind(const struct load_shape *shape, struct lend_rng *rng)
{
	uint64_t sum = 0, at;
	unsigned kind = 0;

	for (unsigned i = 0; i < LOAD_KINDS; i++)
		sum += shape->share[i];
	at = lend_rng_below(rng, sum);
	for (; at >= shape->share[kind]; kind++)
		at -= shape->share[kind];
	return (enum load_kind)kind;
}

void load_mix_draw(const struct load_shape *shape, struct lend_rng *rng, uint64_t number,
		   struct load_request *request)
{
	request->kind = draw_kind(shape, rng);
	request->user = (uint32_t)lend_rng_below(rng, shape->users);
	request->start = (uint32_t)lend_rng_below(rng, shape->start + 1u);
	request->stop = request->start + shape->posts;
	request->number = number;
}

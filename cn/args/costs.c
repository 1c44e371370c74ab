/* args/costs - see costs.h. */
#include "cn/args/costs.h"

#define COPY_NS     0.04 /* to copy one byte */
#define IN_PLACE_NS 200.0

enum { GRID_MIN = 10, GRID_MAX = 40, STEPS = 4 };
const uint32_t cn_cost_len[CN_COST_POINTS] = {64, 4096, 65536, CN_COST_LEN_MAX};

/* Returns the time of len bytes beyond that of a message without any. */
static double cost_at(const struct cn_cost *cost, double len)
{
	uint32_t i = 1;
	double slope;

	while (i + 1 < cost->known && len > cn_cost_len[i])
		i++;
	slope =
	    ((double)cost->ns[i] - (double)cost->ns[i - 1]) / (cn_cost_len[i] - cn_cost_len[i - 1]);
	slope = slope > 0 ? slope : 0;
	return (double)cost->ns[i] + slope * (len - cn_cost_len[i]) - (double)cost->ns[0];
}

static double smaller_of(double a, double b)
{
	return a < b ? a : b;
}

/* Returns the time of a message that a service passes on: at least that of a fast copy, which other
 * work can hide from a measurement. */
static double next_at(const struct cn_costs *line, double len)
{
	double ns = cost_at(&line->cost[CN_COST_NEXT], len);

	return ns > COPY_NS * len ? ns : COPY_NS * len;
}

/* Returns whether len bytes by reference take less time than inline. node NULL: lent. */
static bool is_cheaper(const struct cn_costs *line, const struct cn_costs *node, double hops,
		       double len)
{
	double call = (double)line->cost[CN_COST_NEXT].ns[0],
	       first = cost_at(&line->cost[CN_COST_FIRST], len);
	double sent = first + (hops - 1) * next_at(line, len);

	if (node)
		return cost_at(&node->cost[CN_COST_PUT_GET], len) +
			   (double)node->cost[CN_COST_PUT_GET].ns[0] <
		       sent;
	return (line->in_place ? smaller_of(call / 8, IN_PLACE_NS) : 5 * call / 2 + first) < sent;
}

uint64_t cn_costs_crossing(const struct cn_costs *line, const struct cn_costs *node, double hops)
{
	uint64_t crossing = UINT64_MAX;

	for (int bits = GRID_MAX - 1; bits >= GRID_MIN; bits--)
		for (int step = STEPS - 1; step >= 0; step--) {
			uint64_t len = (STEPS + (uint64_t)step) * ((UINT64_C(1) << bits) / STEPS);

			if (!is_cheaper(line, node, hops, (double)len))
				return crossing;
			crossing = len;
		}
	return crossing;
}

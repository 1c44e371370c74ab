#include "lend/stats.h"

#include "core/counters.h"
#include "rpc/remotes.h"

enum { LOOP_N = 11 };

struct counter {
	const char *name, *meaning;
};
static const struct counter loop_counters[LOOP_N] = {
    {"tx_bytes", "bytes handed to carriers, heads and trailers included"},
    {"rx_bytes", "bytes received from carriers"},
    {"tx_datagrams", "datagrams that carriers took"},
    {"rx_datagrams", "datagrams that carriers gave"},
    {"calls_started", "calls made here"},
    {"calls_ended", "of them, ended"},
    {"requests", "requests received whole"},
    {"replies", "answers given"},
    {"sessions", "sessions up now"},
    {"sleeps", "times that a turn slept"},
    {"buf_bytes", "bytes of message buffers now out of the pool"},
};
#define X(name, text) {"core_" #name, text},
static const struct counter core_counters[] = {LEND_CORE_STATS(X)};
#undef X
#define X(name, text) {"io_" #name, text},
static const struct counter io_counters[] = {LEND_IO_STATS(X)};
#undef X
#define X(name, text) {"seal_" #name, text},
static const struct counter seal_counters[] = {LEND_RECORDS_STATS(X)};
#undef X

/* In the order of struct lend_gateway_counters. */
static const struct counter gateway_counters[] = {
    {"gateway_connections", "connections of gRPC clients accepted"},
    {"gateway_refused", "of them closed: too many, or too slow"},
    {"gateway_calls", "requests of gRPC clients answered"},
    {"gateway_errors", "of them with another status than OK"},
};
/* In the order of struct lend_remote_counters. */
static const struct counter remote_counters[] = {
    {"remote_connections", "connections to gRPC servers"},
    {"remote_failed", "attempts to connect to one that failed at all of its addresses"},
    {"remote_calls", "requests to gRPC servers that have ended"},
    {"remote_errors", "of them with another status than OK"},
};

enum {
	CORE_N = sizeof(core_counters) / sizeof(core_counters[0]),
	IO_N = sizeof(io_counters) / sizeof(io_counters[0]),
	SEAL_N = sizeof(seal_counters) / sizeof(seal_counters[0]),
	GATEWAY_N = sizeof(gateway_counters) / sizeof(gateway_counters[0]),
	REMOTE_N = sizeof(remote_counters) / sizeof(remote_counters[0]),
};

void lend_stats_get(struct lend_ep *ep, struct lend_stats *stats)
{
	*stats = ep->stats;
	stats->buf_bytes = ep->bufs->out;
}

static uint64_t of_io(struct lend_ep *ep, unsigned i)
{
	uint64_t sum = 0;

	for (uint32_t c = 0; c < ep->n_carriers; c++)
		sum += ((const uint64_t *)&ep->carrier[c].io->stats)[i];
	return sum;
}

static uint64_t of_gateways(const struct lend_ep *ep, unsigned i)
{
	uint64_t sum = 0;

	for (uint32_t g = 0; g < ep->gateways.n; g++)
		sum += ((const uint64_t *)ep->gateways.ops->counters(ep->gateways.gateway[g]))[i];
	return sum;
}

static uint64_t of_remotes(const struct lend_ep *ep, unsigned i)
{
	uint64_t sum = ((const uint64_t *)&ep->gateways.ended)[i];

	for (const struct lend_route *route = ep->routes; route; route = route->next)
		sum += ((const uint64_t *)ep->gateways.ops->remote_counters(route->remote))[i];
	return sum;
}

/* Finds the i-th counter in one of the groups, in the order of the public function. */
static const struct counter *find_counter(struct lend_ep *ep, unsigned i, uint64_t *value)
{
	if (i < CORE_N) {
		*value = ((const uint64_t *)lend_core_stats(ep->core))[i];
		return &core_counters[i];
	}
	i -= CORE_N;
	if (i < IO_N) {
		*value = of_io(ep, i);
		return &io_counters[i];
	}
	i -= IO_N;
	if (i < SEAL_N) {
		*value = ((const uint64_t *)&ep->sealing.records.stats)[i];
		return &seal_counters[i];
	}
	i -= SEAL_N;
	if (i < GATEWAY_N) {
		*value = of_gateways(ep, i);
		return &gateway_counters[i];
	}
	i -= GATEWAY_N;
	if (i >= REMOTE_N)
		return NULL;
	*value = of_remotes(ep, i);
	return &remote_counters[i];
}

bool lend_stats_each(struct lend_ep *ep, unsigned i, const char **name, const char **meaning,
		     uint64_t *value)
{
	const struct counter *counter;
	struct lend_stats stats;
	uint64_t found;

	lend_stats_get(ep, &stats);
	if (i < LOOP_N) {
		counter = &loop_counters[i];
		found = ((const uint64_t *)&stats)[i];
	} else {
		counter = find_counter(ep, i - LOOP_N, &found);
	}
	if (!counter)
		return false;
	*value = found;
	*name = counter->name;
	*meaning = counter->meaning;
	return true;
}

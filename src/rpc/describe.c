#include "rpc/describe.h"

#include <stdio.h>

#include "rpc/endpoint.h"

static void put_counters(struct lend_ep *ep, struct lend_io_sink *sink)
{
	const char *name, *meaning;
	char address[256];
	uint64_t value;

	sink->text(sink, "address", lend_address(ep, address, sizeof(address)) == 0 ? address : "");
	for (unsigned i = 0; lend_stats_each(ep, i, &name, &meaning, &value); i++)
		if (value)
			sink->number(sink, name, value);
}

static void put_session(const struct lend_session_stats *stats, struct lend_io_sink *sink)
{
	uint32_t calls = 0, served = 0;

	for (int i = 0; i < 8; i++) {
		calls += stats->calls[i];
		served += stats->served[i];
	}
	sink->text(sink, "peer", stats->peer);
	sink->number(sink, "up", stats->up);
	sink->number(sink, "tx", stats->tx);
	sink->number(sink, "rx", stats->rx);
	sink->number(sink, "rtt_ns", stats->rtt);
	sink->number(sink, "in_flight", stats->in_flight);
	sink->number(sink, "window", stats->window);
	sink->number(sink, "calls", calls);
	sink->number(sink, "served", served);
}

/* Writes a group per session, named by its index, and the index to continue from. */
static void put_sessions(struct lend_ep *ep, uint32_t from, uint32_t most,
			 struct lend_io_sink *sink)
{
	struct lend_session_stats stats;
	char name[16];

	for (uint32_t n = 0; (from = lend_stats_session(ep, from, &stats)) != 0 && n < most; n++) {
		(void)snprintf(name, sizeof(name), "%u", from);
		sink->begin(sink, name);
		put_session(&stats, sink);
		sink->end(sink);
	}
	if (from)
		sink->number(sink, "next", from - 1);
}

void lend_ep_describe(void *arg, enum lend_io_topic topic, uint32_t from, uint32_t most,
		      struct lend_io_sink *sink)
{
	struct lend_ep *ep = arg;
	const char *name;
	uint64_t value;

	switch (topic) {
	case LEND_IO_ENDPOINT:
		put_counters(ep, sink);
		break;
	case LEND_IO_SESSIONS:
		put_sessions(ep, from, most, sink);
		break;
	case LEND_IO_NODE:
		for (unsigned i = 0; ep->numbers && ep->numbers(ep->numbers_arg, i, &name, &value);
		     i++)
			sink->number(sink, name, value);
		break;
	}
}

void lend_stats_publish(struct lend_ep *ep, lend_numbers_fn *numbers, void *arg)
{
	ep->numbers = numbers;
	ep->numbers_arg = arg;
}

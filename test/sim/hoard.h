/* hoard - a node that takes resources and never continues. It answers PINGs, and takes as much as
 * it can of one table of node 0. plan.hoard selects the table:
 *
 *   1  call records       it never acknowledges a reply
 *   2  reassemblies       of each request it sends only the first datagram
 *   3  memory             the same, and each request claims a megabyte
 *   4  sessions           it connects as often as it can and makes no call
 *   5  memory             as 3, but it sends the first 40 KiB of each request
 *   6  sessions           as 4, and in each a call whose handler runs until the session ends
 *
 * It is the last node of the plan: a real core behind a filter of its datagrams. It starts after a
 * third of the span and repeats its attempts; it closes its sessions when faults stop. Oracle: each
 * call between other nodes ends OK unless its caller hangs up. It takes at most twice the time of
 * the slowest call before. Layer: test/sim. */
#ifndef TEST_SIM_HOARD_H
#define TEST_SIM_HOARD_H

#include "sim/work.h"

enum {
	SIM_HOARD_RECORDS = 1,
	SIM_HOARD_PARTS,
	SIM_HOARD_MEMORY,
	SIM_HOARD_SESSIONS,
	SIM_HOARD_CONTINUED,
	SIM_HOARD_BUSY
};
enum { SIM_HOARD_METHOD = 0x7fffff00 };

static inline bool sim_hoard_is(const struct sim *sim, uint32_t node)
{
	return sim->plan.hoard && node == sim->plan.nodes - 1;
}

void sim_hoard_open(struct sim *sim);
void sim_hoard_close(struct sim *sim);
/* Handles SIM_HOARD: starts more calls or sessions. */
void sim_hoard_event(struct sim *sim);
/* Stops the hoarder when faults stop. */
void sim_hoard_heal(struct sim *sim);
/* Replaces sim_net_send() for the hoarder: drops what it must not send or receive. */
enum lend_sent sim_hoard_send(struct sim *sim, uint32_t from, const struct lend_bufs *bufs,
			      const struct lend_out *out);
/* Handle an event of the hoarder's core, and a request of its calls at another node. */
void sim_hoard_core_event(struct sim *sim, const struct lend_event *e);
void sim_hoard_serve(struct sim *sim, uint32_t node, const struct lend_event *e);
/* True: there is memory for this request; false: it is refused, or asks again (*later). */
bool sim_hoard_memory(struct sim *sim, uint32_t node, const struct lend_event *e, bool *later);
/* Checks a scripted call that ended. */
void sim_hoard_judge(struct sim *sim, uint32_t call, const struct sim_call *k,
		     const struct lend_event *e);

#endif

/* hoard - a node that begins and never continues: it answers PINGs, and takes what it can of the
 * tables of node 0. plan.hoard selects the table:
 *
 *   1  call records       it never acknowledges a reply
 *   2  reassemblies       of each request it sends the first datagram only
 *   3  memory             likewise, and each request claims a megabyte
 *   4  sessions           it connects as often as it can and calls nothing
 *
 * It is the last node of the plan, and a real core behind a filter of its datagrams. From a third
 * of the span on it begins all it can, again and again; when faults stop it hangs up. Oracle: each
 * call between the others ends OK unless its caller hangs up, in twice the time of the slowest call
 * before, at most. Layer: test/sim. */
#ifndef TEST_SIM_HOARD_H
#define TEST_SIM_HOARD_H

#include "sim/work.h"

enum { SIM_HOARD_RECORDS = 1, SIM_HOARD_PARTS, SIM_HOARD_MEMORY, SIM_HOARD_SESSIONS };
enum { SIM_HOARD_METHOD = 0x7fffff00 };
#define SIM_HOARD_BYTES (UINT64_C(16) << 20) /* for long requests at node 0 */

static inline bool sim_hoard_is(const struct sim *sim, uint32_t node)
{
	return sim->plan.hoard && node == sim->plan.nodes - 1;
}

void sim_hoard_open(struct sim *sim);
void sim_hoard_close(struct sim *sim);
/* It begins more. */
void sim_hoard_event(struct sim *sim);
/* Faults are over. */
void sim_hoard_heal(struct sim *sim);
/* As sim_net_send(): what the hoarder does not send, or not hear, gets lost. */
enum lend_sent sim_hoard_send(struct sim *sim, uint32_t from, const struct lend_bufs *bufs,
			      const struct lend_out *out);
/* Handles an event of the hoarder's core; a request of its calls at another node. */
void sim_hoard_core_event(struct sim *sim, const struct lend_event *e);
void sim_hoard_serve(struct sim *sim, uint32_t node, const struct lend_event *e);
/* True: there is memory for this request; false: it is refused, or asks again (*later). */
bool sim_hoard_memory(struct sim *sim, uint32_t node, const struct lend_event *e, bool *later);
/* A call of the script ended well, or not. */
void sim_hoard_judge(struct sim *sim, uint32_t call, const struct sim_call *k,
		     const struct lend_event *e);

#endif

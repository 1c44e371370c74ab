/* oracle_print - prints a core's calls as text, to show why one does not end. Part of oracle.h.
 * Layer: test/sim. */
#include "core/arena.h"
#include "sim/oracle/oracle.h"

static const char *const state[] = {"free",    "queued",  "open",     "draining",
				    "partial", "running", "replying", "orphan"};

static void print_call(struct lend_core *c, const struct lend_call_rec *k, FILE *to)
{
	const struct lend_sess *s = lend_sess_at(c, k->sess);

	fprintf(to, "  %s of method %u with peer %u is %s, slot %u\n",
		k->server ? "request" : "call", k->method, s->peer, state[k->state],
		lend_pkt_slot(k->wire));
	fprintf(to, "    out: %u bytes, fragments %u: low %u, next %u, again %u; granted %u%s%s\n",
		k->tx.len, k->tx.total, k->tx.low, k->tx.next, k->tx.resend, k->tx.granted,
		k->tx.ready.in && !k->waits ? ", ready" : "",
		k->paused  ? ", held"
		: k->waits ? ", waits"
			   : "");
	fprintf(to, "    in: %u bytes, %u here, granted %u, charged %u, buffer %u%s%s%s%s\n",
		k->rx.len, k->rx.got, k->rx.granted, k->rx.charged, k->rx.buf,
		k->rx.frags != LEND_NONE ? ", has a reassembly" : "",
		k->rx.needed ? ", needs memory" : "", k->rx.memq_state ? ", wants memory" : "",
		k->rx.memq_link.in ? ", in line" : "");
}

void sim_core_print(struct lend_core *c, FILE *to)
{
	fprintf(to, "  budget %llu of %llu, %u buffers, %u reassemblies, %u windows are free\n",
		(unsigned long long)c->budget_used, (unsigned long long)c->cfg.receive_budget,
		c->supply_n, c->free_frags.free, c->free_wins.free);
	for (uint32_t i = 0; i < c->cfg.sessions; i++) {
		const struct lend_sess *s = lend_sess_at(c, i);

		if (s->state != LEND_SESS_FREE)
			fprintf(to,
				"  session with peer %u: state %u, number %llu, oldest %llu, "
				"acked %llu, unscheduled %u of %u\n",
				s->peer, s->state, (unsigned long long)s->number,
				(unsigned long long)s->oldest, (unsigned long long)s->acked,
				s->unscheduled_used, s->unscheduled);
	}
	for (uint32_t i = 0; i < c->records; i++)
		if (lend_call_at(c, i)->state != LEND_CALL_FREE)
			print_call(c, lend_call_at(c, i), to);
}

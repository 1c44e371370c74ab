/* explore_print - prints a move as a line of text. Part of explore_world.h. Layer: test. */
#include <string.h>

#include "core/arena.h"
#include "sim/explore/explore_world.h"

static const char *const kind_name[LEND_PKT_KINDS] = {
    [LEND_PKT_CONNECT] = "CONNECT", [LEND_PKT_ACCEPT] = "ACCEPT",   [LEND_PKT_RESET] = "RESET",
    [LEND_PKT_BYE] = "BYE",         [LEND_PKT_BYE_ACK] = "BYE_ACK", [LEND_PKT_PING] = "PING",
    [LEND_PKT_REQUEST] = "REQUEST", [LEND_PKT_REPLY] = "REPLY",     [LEND_PKT_ACK] = "ACK",
    [LEND_PKT_PROBE] = "PROBE",     [LEND_PKT_CANCEL] = "CANCEL",   [LEND_PKT_GONE] = "GONE",
    [LEND_PKT_CALLS] = "CALLS",     [LEND_PKT_RUNNING] = "RUNNING",
};
static const char *const move_name[EX_KINDS] = {
    [EX_DELIVER] = "deliver", [EX_TICK] = "tick",   [EX_PASS] = "pass",
    [EX_CONNECT] = "connect", [EX_CALL] = "call",   [EX_CANCEL] = "cancel",
    [EX_REPLY] = "reply",     [EX_CLOSE] = "close", [EX_OP] = "op",
    [EX_AGAIN] = "again",     [EX_DROP] = "drop",   [EX_DUP] = "dup",
    [EX_CRASH] = "crash",     [EX_START] = "start",
};

static void print_dgram(uint32_t id, FILE *to)
{
	struct ex_dgram g;
	struct lend_pkt head;

	ex_dgram_at(id, &g);
	if (g.app) {
		fprintf(to, " %u>%u reference", g.from, g.to);
		return;
	}
	memcpy(&head, g.bytes, sizeof(head));
	fprintf(to, " %u>%u %s number %llu", g.from, g.to,
		head.kind < LEND_PKT_KINDS ? kind_name[head.kind] : "?",
		(unsigned long long)head.number);
	if (head.call)
		fprintf(to, " slot %u seq %u", lend_pkt_slot(head.call), lend_pkt_seq(head.call));
	if (head.kind == LEND_PKT_REQUEST || head.kind == LEND_PKT_REPLY)
		fprintf(to, " bytes %u+%u of %u", head.offset, g.len + g.data_len, head.length);
	else if (head.kind == LEND_PKT_ACK || head.kind == LEND_PKT_PROBE)
		fprintf(to, " state %u flags %u", head.offset, head.length);
}

void ex_world_print(const struct ex_scope *scope, const struct ex_state *s, struct ex_move move,
		    FILE *to)
{
	uint64_t in;

	(void)scope;
	fprintf(to, "  %s", move_name[move.kind]);
	if (move.kind == EX_DELIVER || move.kind == EX_DROP || move.kind == EX_DUP) {
		print_dgram(s->net[move.arg] - 1, to);
	} else if (move.kind == EX_TICK) {
		fprintf(to, " %u, %llu us on", move.node,
			(unsigned long long)(ex_node_attr(move.node, s->node[move.node])->wait /
					     LEND_US));
	} else {
		fprintf(to, " %u", move.node);
		in = move.kind == EX_CRASH || move.kind == EX_START ? 0 : ex_api_input(move.arg);
		if (move.kind == EX_CANCEL || move.kind == EX_REPLY)
			fprintf(to, " %u", (unsigned)in);
	}
	fputc('\n', to);
}

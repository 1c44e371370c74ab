/* Goal: operations of any bytes in any order break no ledger of the memory node, cause no access
 * out of bounds, and change nothing when they fail. Method: six clients of three processes on a
 * node of twenty pages; the bytes choose operations, half of them spoilt, mixed with placements,
 * pinned replies, time and hang-ups; the store's own audit in between and at the end, when all must
 * be free. Covers: mn/store/exec.c, mn/store/data_exec.c, mn/store/ref_exec.c,
 * mn/store/placement.c, mn/store/audit.c */
#include "fuzz/store_checks.h"
#include "fuzz/finding.h"

const char fuzz_name[] = "store";

static void step_operation(struct choice *c, bool spoilt)
{
	static struct node_message m;

	node_say(c, &m);
	if (spoilt) {
		node_spoil(c, &m);
		fuzz_hostile++;
	}
	node_run(c, &m);
}

static void step_burst(struct choice *c)
{
	uint32_t n = 1 + choice_of(c, 32);

	choice_dice(c);
	for (; n > 0; n--)
		step_operation(c, choice_rare(c, 2));
	choice_bytes(c);
}

/* A long operation lands in frames, and runs later, or never; its bytes may have changed
 * meanwhile. */
static void step_place(struct choice *c)
{
	struct node_message *m = &node.placed[choice_of(c, NODE_PLACED)];

	if (m->placement && choice_rare(c, 4)) {
		lend_store_unplace(node.store, m->placement);
		m->placement = 0;
	} else if (m->placement) {
		if (choice_rare(c, 3)) {
			m->bytes[choice_u8(c) % m->fixed] ^= (uint8_t)(1u << choice_of(c, 8));
			fuzz_hostile++;
		}
		node_run(c, m);
	} else {
		do
			node_say(c, m);
		while (choice_left(c) && m->bytes[0] != LEND_MEMOP_PUT &&
		       m->bytes[0] != LEND_MEMOP_WRITE);
		if (choice_rare(c, 4)) {
			node_spoil(c, m);
			fuzz_hostile++;
		}
		node_place(m);
	}
}

static void run_step(struct choice *c)
{
	switch (choice_of(c, 32)) {
	case 0:
		node_tick(UINT64_C(1) << choice_of(c, 37));
		return;
	case 1:
		lend_store_hangup(node.store, node.client[choice_of(c, NODE_CLIENTS)].peer.life);
		return;
	case 2:
		node_done(choice_of(c, NODE_PINS));
		return;
	case 3:
		if (choice_rare(c, 8))
			node_audit();
		return;
	case 4:
	case 5:
	case 6:
	case 7:
		step_place(c);
		return;
	case 8:
	case 9:
		step_burst(c);
		return;
	default:
		step_operation(c, choice_rare(c, 2));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct choice c = {.at = data, .end = data + len};

	if (len > 4096)
		return -1;
	fuzz_begin();
	node_open();
	while (choice_left(&c))
		run_step(&c);
	node_close();
	return 0;
}

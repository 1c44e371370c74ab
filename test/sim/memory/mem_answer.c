/* mem_answer - checks the answers that a client receives: each is one that the node gave, byte for
 * byte. Part of mem_op. Layer: test/sim. */
#include <string.h>

#include "sim/memory/mem_state.h"
#include "util/bits.h"

enum { RAN_NO, RAN_YES, RAN_MAYBE };
enum { CANCELLED = 1, EXHAUSTED = 8, UNAVAILABLE = 14 };

static void check_bytes(struct sim *sim, const struct mem_op *op, const void *data, uint64_t len)
{
	struct lend_store_seg seg = {(void *)(uintptr_t)data, len};

	mem_serve_check(sim, op->store, &seg, len > 0, &op->bytes, "at its client");
}

/* The answer must be one that the node gave. */
static void check_answer(struct sim *sim, const struct mem_op *op, const struct lend_event *e,
			 const void *data)
{
	SIM_CHECK(sim, op->execs && op->answers >> e->status & 1,
		  "%s %llu of client %u ends with %u, which the node did not answer",
		  mem_op_name(op->say.kind), (unsigned long long)op->say.id, op->say.client,
		  e->status);
	if (e->status != LEND_MEM_OK) {
		SIM_CHECK(sim, e->len == 0, "a failed operation has %llu bytes",
			  (unsigned long long)e->len);
		return;
	}
	if (op->say.kind == LEND_MEMOP_GET || op->say.kind == LEND_MEMOP_READ) {
		check_bytes(sim, op, data, e->len);
		return;
	}
	SIM_CHECK(sim, e->len == op->reply_len, "%s: %llu bytes of %u", mem_op_name(op->say.kind),
		  (unsigned long long)e->len, op->reply_len);
	if (op->say.kind != LEND_MEMOP_STAT && e->len)
		SIM_CHECK(sim,
			  memcmp(data, op->reply, lend_min_u64(e->len, sizeof(op->reply))) == 0,
			  "%s: another answer than the node's", mem_op_name(op->say.kind));
}

static void keep_space(struct mem_actor *a, const struct mem_op *op, const void *data)
{
	struct mem_space *s = &a->space[a->spaces];

	if (a->spaces == MEM_SPACES)
		return;
	a->spaces++;
	*s = (struct mem_space){.len = op->say.len, .store = op->store};
	lend_memspace_decode(data, 16, &s->space);
	if (op->say.kind == LEND_MEMOP_MAP)
		s->len = lend_load_u64((const uint8_t *)data + 16);
}

static void keep_result(struct sim *sim, struct mem_op *op, const void *data)
{
	struct mem_actor *a = &sim->mem->actor[op->actor];
	struct lend_memref ref;

	switch (op->say.kind) {
	case LEND_MEMOP_PUT:
	case LEND_MEMOP_SEAL:
	case LEND_MEMOP_NARROW:
		SIM_CHECK(sim, lend_memref_decode(data, &ref), "an invalid reference");
		mem_script_keep(sim, a, &ref, op->store);
		return;
	case LEND_MEMOP_ALLOC:
	case LEND_MEMOP_MAP:
		keep_space(a, op, data);
		return;
	default:
		return;
	}
}

static void handle_hello(struct sim *sim, struct mem_op *op, const struct lend_event *e,
			 const void *data)
{
	struct mem_link *l = mem_op_link(sim, op);
	struct mem_life *life = mem_client_life(sim, op->actor, op->store);
	static const uint8_t none[LEND_MEMOP_KEY];
	struct lend_memhello h;

	l->asking = false;
	mem_op_resolve(sim, op);
	if (!op->wrong)
		l->refused = e->status == LEND_MEM_RESOURCE_EXHAUSTED;
	if (e->status == LEND_MEM_ABORTED && !op->wrong && op->say.life == life->life)
		life->life = 0;
	if (e->status || l->number != op->say.client || !lend_memhello_decode(data, e->len, &h))
		return;
	if (!life->life && memcmp(h.key, none, sizeof(none))) {
		life->life = h.life;
		memcpy(life->key, h.key, sizeof(life->key));
	}
	if (l->had && l->had != h.life)
		mem_client_fenced(sim, &sim->mem->actor[op->actor], op->store);
	l->life = l->had = h.life;
	l->open = h.open;
}

/* The operation was undone by FORGET, or could not be at present. */
static void handle_forget(struct sim *sim, struct mem_op *op, uint8_t status)
{
	struct mem_op *target = &sim->mem->op[op->about];

	mem_op_resolve(sim, op);
	if (target->state == MEM_OP_FREE || target->say.id != op->say.target ||
	    target->say.client != op->say.client)
		return;
	if (status == LEND_MEM_RESOURCE_EXHAUSTED)
		target->forgetting = false;
	else
		mem_op_resolve(sim, target);
}

/* The bytes of an early put follow, or the put is forgotten. The second answer is the first. */
static void send_bytes(struct sim *sim, struct mem_op *op)
{
	op->say.flags = 0;
	op->unsure = true;
	if (mem_one_in(sim, 8))
		mem_op_forget(sim, op);
	else if (mem_below(sim, 4))
		mem_op_send(sim, op);
}

static void handle_answer(struct sim *sim, struct mem_op *op, const struct lend_event *e,
			  const void *data)
{
	struct mem_actor *a = &sim->mem->actor[op->actor];
	struct mem_link *l = mem_op_link(sim, op);

	op->unsure = false;
	if (op->say.kind == LEND_MEMOP_HELLO) {
		handle_hello(sim, op, e, data);
		return;
	}
	if (op->resolved || op->say.client != l->number) {
		mem_op_resolve(sim, op);
		return;
	}
	if (e->status == LEND_MEM_ABORTED && !op->forgetting && op->say.life == l->life) {
		op->unsure =
		    true; /* HELLO shows whether the life ended or only the session is new */
		l->life = 0;
		return;
	}
	if (op->say.kind == LEND_MEMOP_BYE_CLIENT) {
		mem_client_fenced(sim, a, op->store);
		l->number = 0;
		return;
	}
	if (op->say.kind == LEND_MEMOP_FORGET) {
		handle_forget(sim, op, e->status);
		return;
	}
	if (e->status == LEND_MEM_OK && !op->forgetting)
		keep_result(sim, op, data);
	if (e->status == LEND_MEM_OK && !op->forgetting && op->say.kind == LEND_MEMOP_PUT &&
	    op->say.flags) {
		send_bytes(sim, op);
		return;
	}
	if (lend_memop_recorded(op->say.kind) && !op->garbage && !sim->healing &&
	    mem_one_in(
		sim, op->say.kind == LEND_MEMOP_GRANT || op->say.kind == LEND_MEMOP_ADOPT ? 2 : 6))
		op->state = MEM_OP_KEPT;
	else if (!op->forgetting)
		mem_op_resolve(sim, op);
}

void sim_mem_end(struct sim *sim, uint32_t node, const struct sim_call *call,
		 const struct lend_event *e, const void *data)
{
	struct mem_op *op = &sim->mem->op[call->arg];

	(void)node;
	op->calls--;
	if (op->hand) {
		if (e->ran != RAN_YES)
			SIM_MARK(sim, mem_hand_lost);
		mem_op_resolve(sim, op);
	} else if (e->ran == RAN_YES) {
		check_answer(sim, op, e, data);
		handle_answer(sim, op, e, data);
	} else {
		SIM_CHECK(sim,
			  e->status == UNAVAILABLE || e->status == EXHAUSTED ||
			      (e->status == CANCELLED && (call->cancelled || sim->plan.hangup_ppm)),
			  "%s ends with %u", mem_op_name(op->say.kind), e->status);
		op->not_run += e->ran == RAN_NO;
		SIM_CHECK(sim, op->garbage || op->execs <= op->sent - op->not_run,
			  "%s: reported as not run, but it ran", mem_op_name(op->say.kind));
		op->unsure = true;
		SIM_MARK(sim, mem_unsure);
		mem_op_end(op);
	}
}

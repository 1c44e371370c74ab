/* named_run - the command `named`: plans of runs, their events and their end. Layer: test/sim. */
#include "sim/command.h"
#include "sim/lent/lent_command.h"
#include "sim/named/named_call.h"
#include "wire/head.h"

struct named_sums named_sums;

/* A quarter of the nodes read heads of 1000 bytes only, and a seventh none: as older releases. */
static void draw_node(struct lent_node *n)
{
	n->head_max = lent_below(LENT_NAMED, 4) ? 0 : 1000;
	n->without = 0;
	if (lent_below(LENT_NAMED, 7) == 0)
		n->without = LEND_FEATURE_REQUEST_HEADS;
	if (n->without && lent_below(LENT_NAMED, 2))
		n->without |= LEND_FEATURE_REPLY_HEADS;
}

static void plan_times(enum named_what what, uint64_t n, uint32_t below)
{
	for (uint64_t i = 0; i < n; i++)
		named_at(lent->now + lent_below(LENT_NAMED, lent->plan.span), what,
			 (uint32_t)lent_below(LENT_NAMED, below));
}

static void plan_run(void)
{
	struct lent_plan *p = &lent->plan;

	p->calls = 0;
	if (!lent->seed)
		return;
	for (uint32_t i = 0; i < p->nodes; i++)
		draw_node(&lent->node[i]);
	if (named_is_parked()) {
		p->crash = p->pause = 0;
		p->probe = 500 * LENT_MS;
		p->dead = 2000 * LENT_MS;
	}
	plan_times(NAMED_CALL, 30 + lent_below(LENT_NAMED, NAMED_CALLS - 60), 1);
	plan_times(NAMED_OPEN, lent_below(LENT_NAMED, NAMED_STREAMS + 1), 1);
	plan_times(NAMED_CHANGE, lent_below(LENT_NAMED, 2) * lent_below(LENT_NAMED, 30), p->nodes);
}

static void serve_birth(uint32_t node)
{
	named_serve_birth(node);
	named_stream_birth(node);
}

static void run_event(uint32_t a, uint32_t b)
{
	switch ((enum named_what)a) {
	case NAMED_CALL:
		named_call_start();
		break;
	case NAMED_CANCEL:
		named_call_cancel(b);
		break;
	case NAMED_ANSWER:
		named_serve_answer(b, false);
		break;
	case NAMED_CHANGE:
		named_serve_change(b);
		break;
	case NAMED_OPEN:
	case NAMED_CUT:
	case NAMED_HANG_UP:
	case NAMED_END:
		named_stream_event((enum named_what)a, b);
		break;
	}
}

static void check_end(void)
{
	LENT_CHECK(!named_call_open(), "%u calls have not ended", named_call_open());
	named_stream_check_end();
	if (lent->seed && named_is_parked())
		named_parked_run();
}

static void close_run(void)
{
	named_calls_free();
	named_sums.runs++;
}

static const struct lent_work named_work = {
    .name = "named",
    .plan = plan_run,
    .birth = serve_birth,
    .event = run_event,
    .step = named_stream_step,
    .heal = named_stream_heal,
    .settled = check_end,
    .close = close_run,
};

void named_run_seed(uint64_t seed)
{
	lent_run_work(seed, &named_work);
}

int sim_cmd_named(int argc, char **argv)
{
	static const char *const text[] = {
#define X(name, text) #name, text,
	    NAMED_SUMS(X)
#undef X
	};
	const struct lent_command command = {.name = "named",
					     .run_seed = named_run_seed,
					     .text = text,
					     .sum = (uint64_t *)&named_sums,
					     .n = sizeof(named_sums) / sizeof(uint64_t)};

	return lent_command_run(&command, argc, argv);
}

#include "sim/sim_args.h"

#include <stdio.h>
#include <string.h>

#include "core/cc.h"
#include "sim/net/net_state.h"

enum { TIMELY_8 = LEND_CC_TIMELY | 8 << 8 }; /* see cc in plan.h */

/* Splits a list at its commas; each item is parsed by one. */
static void split_list(const struct lend_option *o, struct option_list *list, char *value,
		       uint64_t (*one)(const struct lend_option *, const char *))
{
	char *word;

	for (list->n = 0; (word = strsep(&value, ",")); list->value[list->n++] = one(o, word))
		if (list->n == OPTION_LIST)
			lend_cli_bad("--%s: give at most %d", o->name, OPTION_LIST);
}

static uint64_t parse_number(const struct lend_option *o, const char *word)
{
	return lend_cli_u64(o->name, word, o->min, o->max);
}

static uint64_t parse_algorithm(const struct lend_option *o, const char *word)
{
	enum lend_cc cc = lend_cc_named(word);

	if (strcmp(word, sim_cc_name(TIMELY_8)) == 0)
		return TIMELY_8;
	if (cc >= LEND_CC_KINDS)
		lend_cli_bad("--%s %s: give none, timely, timely-8, swift, dctcp or credit",
			     o->name, word);
	return cc;
}

const char *sim_cc_name(uint64_t cc)
{
	return cc == TIMELY_8 ? "timely-8" : lend_cc_name((enum lend_cc)cc);
}

struct chart_line sim_cc_line(uint64_t cc, const double *x, const double *y, uint32_t n)
{
	return (struct chart_line){sim_cc_name(cc), x, y, n,
				   cc == TIMELY_8 ? (uint8_t)CHART_GOLD : (uint8_t)cc};
}

void take_list(const struct lend_option *option, void *field, char *value)
{
	split_list(option, field, value, parse_number);
}

void take_seeds(const struct lend_option *option, void *field, char *value)
{
	unsigned long long first, last;

	if (sscanf(value, "%llu..%llu", &first, &last) != 2)
		lend_cli_bad("--%s %s: give A..B, as in 1..1000", option->name, value);
	memcpy(field, (uint64_t[]){first, last}, 2 * sizeof(uint64_t));
}

static void take_algorithms(const struct lend_option *option, void *args, char *value)
{
	split_list(option, &((struct options_common *)args)->cc, value, parse_algorithm);
}

static void take_form(const struct lend_option *option, void *args, char *value)
{
	(void)value;
	((struct options_common *)args)->form =
	    strcmp(option->name, "csv") ? TABLE_JSON : TABLE_CSV;
}

static const struct lend_option options[] = {
    OPT_TAKEN("cc", "NAME,...", take_algorithms,
	      "Congestion control: none, timely, timely-8 (with 8 credits instead of 32), swift, "
	      "dctcp, credit (all)"),
    OPT_NUMBER(struct options_common, gbps, "gbps", 1, 800, "Rate of a host's link (100)"),
    OPT_NUMBER(struct options_common, mbps, "mbps", 10, 800000, "The same in Mbit/s"),
    OPT_NUMBER(struct options_common, net.delay_ns, "delay-ns", 1, 100000000, "Delay of a link"),
    OPT_NUMBER(struct options_common, net.buffer_kb, "buffer-kb", 1, 1 << 20, "Of a switch"),
    OPT_NUMBER(struct options_common, net.mark_kb, "mark-kb", 0, 1 << 20,
	       "Queue from which a switch sets ECN marks (96)"),
    OPT_NUMBER(struct options_common, net.loss_ppm, "loss-ppm", 0, 1000000,
	       "Datagrams lost at random, per million (0)"),
    OPT_NUMBER(struct options_common, net.jitter_ns, "jitter-ns", 0, 100000000,
	       "Largest random delay of a datagram, which may overtake others (0)"),
    OPT_NUMBER(struct options_common, net.nic_speed, "nic-speed", 1, 100,
	       "Rate of a host's own device, in links (1)"),
    OPT_NUMBER(struct options_common, net.host_queue, "host-queue", 0, 2,
	       "Of that device: 0 short, 1 long and reported, 2 long (0)"),
    OPT_NUMBER(struct options_common, net.turn_ns, "turn-ns", 0, 100000000,
	       "CPU time of a host's turn (0)"),
    OPT_NUMBER(struct options_common, net.cpu_ns, "cpu-ns", 0, 100000000,
	       "CPU time of a batch of datagrams that a host receives or sends (0)"),
    OPT_NUMBER(struct options_common, net.gso, "gso", 1, 32,
	       "Datagrams in a row of one peer that are a batch (1)"),
    OPT_NUMBER(struct options_common, net.foreign_mbps, "foreign", 0, 800000,
	       "Mbit/s of other traffic to each receiver, which never slows down (0)"),
    OPT_NUMBER(struct options_common, net.queues, "queues", 1, NET_QUEUES, "Of a port"),
    OPT_NUMBER(struct options_common, net.share, "share", 0, 1 << 10,
	       "Eighths of the free buffer that a port may use (8)"),
    OPT_NUMBER(struct options_common, net.seed, "seed", 1, UINT64_MAX, "Of all random choices"),
    OPT_TEXT(struct options_common, plot, "plot", "FILE.svg", "Draw the results"),
    OPT_TAKEN("csv", NULL, take_form, "Rows of comma-separated values"),
    OPT_TAKEN("json", NULL, take_form, "JSON"),
    {.name = NULL}};

static void set_rate(void *args)
{
	struct options_common *c = args;

	c->net.mbps = c->mbps ? c->mbps : c->gbps * 1000;
}

const struct lend_syntax options_common = {.option = options, .check = set_rate};

void options_default(struct options_common *c, uint64_t delay_ns)
{
	c->net = sim_plan_calm();
	c->gbps = c->net.mbps / 1000;
	c->mbps = 0;
	c->net.delay_ns = delay_ns;
	c->net.share = 8;
	c->net.queues = NET_QUEUES;
	c->net.mark_kb = 96;
	c->net.checked = 1; /* saves a fifth of the time */
	for (c->cc.n = 0; c->cc.n < LEND_CC_KINDS; c->cc.n++)
		c->cc.value[c->cc.n] = c->cc.n;
	c->cc.value[c->cc.n++] = TIMELY_8;
}

/* sim_args - command-line arguments that experiments and runs share. Layer: test/sim. */
#ifndef TEST_SIM_SIM_ARGS_H
#define TEST_SIM_SIM_ARGS_H

#include "apps/common/chart.h"
#include "cli/option_table.h"
#include "sim/plan.h"
#include "sim/table.h"

enum { OPTION_LIST = 32 };

struct option_list {
	uint32_t n;
	uint64_t value[OPTION_LIST];
};
/* Numbers with commas between them. */
#define OPT_LIST(TYPE, FIELD, NAME, MAX, ...)                                                      \
	{                                                                                          \
		OPT_FIELD(TYPE, FIELD), .name = NAME, .kind = OPT_IS_TAKEN, .take = take_list,     \
					.value = "N,...", .min = 1, .max = MAX,                    \
					.help = __VA_ARGS__                                        \
	}
void take_list(const struct lend_option *option, void *field, char *value);
/* FIRST..LAST, into two uint64_t at FIELD. */
#define OPT_SEEDS(TYPE, FIELD, ...)                                                                \
	{                                                                                          \
		OPT_FIELD(TYPE, FIELD), .name = "seeds", .kind = OPT_IS_TAKEN, .take = take_seeds, \
					.value = "A..B", .help = __VA_ARGS__                       \
	}
void take_seeds(const struct lend_option *option, void *field, char *value);

/* Arguments that every experiment takes. */
struct options_common {
	uint64_t gbps, mbps;   /* mbps 0: gbps counts */
	enum table_form form;  /* --csv, --json */
	struct option_list cc; /* --cc NAME,...: as in the plan; empty: all */
	const char *plot;      /* --plot FILE.svg */
	struct sim_plan net;   /* --delay-ns, --buffer-kb, --share, --mark-kb, --loss-ppm, --seed */
};
extern const struct lend_syntax options_common;

/* Returns the name of the algorithm with that number in a plan. */
const char *sim_cc_name(uint64_t cc);
/* Returns a line of a chart, with the name and the color of the algorithm. */
struct chart_line sim_cc_line(uint64_t cc, const double *x, const double *y, uint32_t n);

/* Sets a network of 100 Gb/s with 4 MiB per switch and carriers with checksums of their own. */
void options_default(struct options_common *c, uint64_t delay_ns);

#endif

/* sim_args - command-line arguments: names with numbers, lists of them, and those that all
 * experiments share. Layer: test/sim. */
#ifndef TEST_SIM_SIM_ARGS_H
#define TEST_SIM_SIM_ARGS_H

#include "sim/plan.h"
#include "sim/table.h"

enum { OPTION_LIST = 32 };

struct option_list {
	uint32_t n;
	uint64_t value[OPTION_LIST];
};
struct option {
	const char *name;
	uint64_t *number; /* 1 .. max; 0 too where zero is set */
	uint64_t max;
	struct option_list *list;
	const char **word;
	bool zero;
};
/* Arguments that every experiment takes. */
struct options_common {
	enum table_form form;  /* --csv, --json */
	struct option_list cc; /* --cc NAME,...: enum lend_cc; empty: all */
	const char *plot;      /* --plot FILE.svg */
	struct sim_plan net;   /* --gbps, --delay-ns, --buffer-kb, --share, --mark-kb, --seed */
};

/* Sets a network of 100 Gb/s with 4 MiB per switch and carriers with checksums of their own. */
void options_default(struct options_common *c, uint64_t delay_ns);
/* Parses the arguments. False: an unknown argument or an invalid number; prints the error and the
 * usage, with the common arguments behind it. */
bool options_parse(struct options_common *c, const struct option *known, uint32_t n, int argc,
		   char **argv, const char *usage);

#endif

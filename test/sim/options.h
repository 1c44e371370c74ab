/* options - a command's words: names with numbers, lists of them, and what all experiments know.
 * Layer: test/sim. */
#ifndef TEST_SIM_OPTIONS_H
#define TEST_SIM_OPTIONS_H

#include "sim/plan.h"
#include "sim/table.h"

enum { OPTION_LIST = 32 };

struct option_list {
	uint32_t n;
	uint64_t value[OPTION_LIST];
};
struct option {
	const char *name;
	uint64_t *number; /* 1 .. max, or 0 too where zero is set */
	uint64_t max;
	struct option_list *list;
	const char **word;
	bool zero;
};
/* What each experiment takes beside its own. */
struct options_common {
	enum table_form form;  /* --csv, --json */
	struct option_list cc; /* --cc NAME,...: enum lend_cc; else all */
	const char *plot;      /* --plot FILE.svg */
	struct sim_plan net;   /* --gbps, --delay-ns, --buffer-kb, --share, --mark-kb, --seed */
};

/* A network of 100 Gb/s whose carriers check what they bear, with 4 MiB a switch. */
void options_default(struct options_common *c, uint64_t delay_ns);
/* False: an unknown word or a bad number; it is told, and usage with what all take behind it. */
bool options_parse(struct options_common *c, const struct option *known, uint32_t n, int argc,
		   char **argv, const char *usage);

#endif

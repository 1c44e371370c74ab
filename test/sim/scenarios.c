/* scenarios - runs plans that once failed, from files: '#' begins a comment, each other line is a
 * plan. Layer: test/sim. */
#include <stdio.h>
#include <string.h>

#include "sim/command.h"
#include "sim/plan_run.h"

enum { SECONDS = 120 };

static int play_file(const char *name, FILE *from)
{
	char line[SIM_PLAN_TEXT], why[SIM_WHY];
	struct sim_plan plan;
	int wrong = 0, n = 0;

	while (fgets(line, sizeof(line), from)) {
		if (line[0] == '#' || line[strspn(line, " \t\n")] == 0)
			continue;
		n++;
		if (!sim_plan_read(line, &plan))
			snprintf(why, sizeof(why), "not a plan");
		else if (sim_try(&plan, SECONDS, why))
			continue;
		printf("%s: %s\n  %s", name, why, line);
		wrong++;
	}
	if (!n)
		printf("%s: no plan in it\n", name);
	return wrong || !n;
}

int sim_cmd_scenarios(int argc, char **argv)
{
	int wrong = 0;

	for (int i = 1; i < argc; i++) {
		FILE *from = fopen(argv[i], "r");

		if (!from) {
			perror(argv[i]);
			return 2;
		}
		wrong += play_file(argv[i], from);
		fclose(from);
	}
	printf("%d scenarios, %d fail\n", argc - 1, wrong);
	return wrong || argc < 2;
}

/* main - lend-sim: runs plans. Layer: test/sim. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "sim/command.h"
#include "sim/explore/explore.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *text;
} command[] = {
    {"run", sim_cmd_run, "[--seeds A..B | --minutes M] [--jobs J] [--json] [--quiet]"},
    {"replay", sim_cmd_replay, "PLAN: one run with a report of its end"},
    {"planted", sim_cmd_planted,
     "[--seeds MAX] [--jobs J] [--only NAME] [--json]: bugs that must be found"},
    {"shrink", sim_cmd_shrink, "PLAN: a shorter one that fails in the same way"},
    {"scenarios", sim_cmd_scenarios, "FILE...: plans that failed once"},
    {"speed", sim_cmd_speed, "datagrams per second and core"},
    {"lent", sim_cmd_lent,
     "[--seeds A..B] [--seconds N] [--jobs J] [--trace]: calls that lend their arguments"},
    {"named", sim_cmd_named,
     "the same options: calls by name, with metadata, and streams, of whole endpoints"},
    {"stream", sim_cmd_stream, "[--seeds A..B] [--json]: the messages of a stream"},
    {"explore", sim_explore, "[--seconds N] [--scope NAME | --replay TEXT | --list] [--json]"},
    {"congestion", sim_cmd_congestion, "[--senders N,...] [--cc NAME,...]: incast"},
    {"fabric", sim_cmd_fabric,
     "[--hosts N] [--mix w4] [--load 80] [--cc NAME,...]: racks and spines"},
    {"sharing", sim_cmd_sharing,
     "[--senders N] [--cc NAME,...]: fairness while senders start and stop"},
};
enum { COMMANDS = sizeof(command) / sizeof(command[0]) };

static int print_usage(void)
{
	fprintf(stderr, "usage: lend-sim COMMAND ...\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(stderr, "  %-10s %s\n", command[i].name, command[i].text);
	return 2;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < COMMANDS; i++)
		if (strcmp(argv[1], command[i].name) == 0) {
			lend_cli_name_set("lend-sim ", command[i].name);
			return command[i].run(argc - 1, argv + 1);
		}
	return print_usage();
}

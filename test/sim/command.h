/* command - lend-sim's subcommands: argv[0] is the name, the result is the exit status. Layer:
 * test/sim. */
#ifndef TEST_SIM_COMMAND_H
#define TEST_SIM_COMMAND_H

int sim_cmd_run(int argc, char **argv);
int sim_cmd_replay(int argc, char **argv);
int sim_cmd_speed(int argc, char **argv);
int sim_cmd_congestion(int argc, char **argv);
int sim_cmd_fabric(int argc, char **argv);
int sim_cmd_sharing(int argc, char **argv);
int sim_cmd_planted(int argc, char **argv);
int sim_cmd_shrink(int argc, char **argv);
int sim_cmd_lent(int argc, char **argv);
int sim_cmd_named(int argc, char **argv);
int sim_cmd_stream(int argc, char **argv);
int sim_cmd_scenarios(int argc, char **argv);

#endif

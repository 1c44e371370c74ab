/* explore - the small-scope explorer: every order of deliveries, losses, retransmissions, timeouts
 * and crashes of two or three real cores, and of the store behind one, within the budgets of a
 * scope. Layer: test. Threads: none. */
#ifndef SIM_EXPLORE_EXPLORE_H
#define SIM_EXPLORE_EXPLORE_H

/* Runs the subcommand `explore`. Returns 0, 1 after a violation, 2 for an invalid command line. */
int sim_explore(int argc, char **argv);

#endif

/* peer_program - runs a program of apps/peers for a measurement, and reads what it prints.
 * Layer: apps. Threads: one. */
#ifndef APPS_BENCH_PEER_PROGRAM_H
#define APPS_BENCH_PEER_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

enum { APP_PEER_PATH = 4096, APP_PEER_LINE = 4096 };

/* Finds peer-NAME. Returns whether it was built. */
bool app_peer_find(const char *name, char path[APP_PEER_PATH]);
/* Runs a program with --json and these options; line is the object that it prints. If it fails, it
 * has printed the reason, and this process ends, too. */
void app_peer_run(const char *path, const char *options, char line[APP_PEER_LINE]);
/* Returns a figure of the object. */
double app_peer_figure(const char *line, const char *key);

#endif

/* deploy - what the program does: one process of the social network, or all of it.
 * Layer: apps. Threads: one. */
#ifndef APPS_SOCIAL_DEPLOY_H
#define APPS_SOCIAL_DEPLOY_H

#include "apps/common/bench_server.h"
#include "apps/social/social.h"

/* The command line. */
struct social_args {
	struct app_server_args server;
	const char *roles; /* roles of this process; NULL: runs all of them */
	const char *dir, *node, *http;
	enum social_by by;
	uint64_t body_max;
	bool embed, real_stores;
};

/* Runs the program over a transport. Returns its exit code. */
int social_main(int argc, char **argv, const struct social_transport *transport);
/* Serves the roles of a process until a signal. */
int social_process(const struct social_args *args);

#endif

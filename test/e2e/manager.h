/* manager - a service manager for one lend-mn, like systemd: receives its notifications, keeps the
 * descriptors that it stores, and passes them to the next start. */
#ifndef TEST_E2E_MANAGER_H
#define TEST_E2E_MANAGER_H

#include <stdbool.h>
#include <sys/types.h>

enum { MANAGER_FDS_MAX = 32 };

struct manager {
	int sock;
	char path[64]; /* path of NOTIFY_SOCKET: abstract */
	struct {
		char name[64];
		int fd;
	} kept[MANAGER_FDS_MAX];
	unsigned n;
	bool ready, stopping;
	pid_t pid;
};

void manager_open(struct manager *m);
void manager_close(struct manager *m);
/* Starts lend-mn with these arguments and waits for READY=1; false when it ended before that. */
bool manager_start(struct manager *m, const char *args);
/* Ends it by a signal and waits; its exit code, or minus the signal. */
int manager_end(struct manager *m, int signal);
/* The kept descriptor of that name, or -1. */
int manager_find(const struct manager *m, const char *name);
/* Closes all kept descriptors. */
void manager_drop(struct manager *m);

#endif

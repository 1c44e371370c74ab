/* hosts - a file that places the processes of a benchmark on machines.
 *
 *	# role  machine  address  EAL's arguments, for a DPDK device
 *	client  a        udp:10.0.0.1:0
 *	hop1    b        udp:10.0.0.2:31850
 *	node    c        udp:10.0.0.3:31851
 *
 * The rest of a line after # is a comment. The same command runs on each machine with --here
 *MACHINE and starts the roles of that machine. The one with the client measures. Layer: apps.
 *Threads: the main one. By value in its owner. */
#ifndef APPS_COMMON_HOSTS_H
#define APPS_COMMON_HOSTS_H

#include <stdbool.h>

#include "apps/common/options.h"
#include "apps/common/topology.h"

struct app_host {
	char role[24], machine[64];
	char address[APP_ADDRESS_MAX], eal[APP_EAL_MAX];
	unsigned line;
	bool used; /* a process has this role */
};

struct app_hosts {
	const char *path; /* NULL: all processes are on this machine */
	const char *here; /* machine of this process; NULL: the host's name */
	unsigned n;
	struct app_host host[APP_PROCS_MAX];
};

#define APP_HOSTS_OPTIONS(TYPE, FIELD)                                                             \
	OPT_TEXT(                                                                                  \
	    TYPE, FIELD.path, "hosts", "FILE",                                                     \
	    "Machine and address of each process, one line each: ROLE MACHINE ADDRESS [EAL]"),     \
	    OPT_TEXT(TYPE, FIELD.here, "here", "MACHINE",                                          \
		     "With --hosts: start the processes of MACHINE (default: this host's name)")

/* Reads the file. app_bad() with path, line and fix when a line or the file makes no sense, or no
 * line is for this machine. */
void app_hosts_read(struct app_hosts *hosts);
/* Finds the carrier of the client's address, for reports. app_bad() without a client. */
void app_hosts_carrier(const struct app_hosts *hosts, enum app_carrier *carrier);
/* Returns the line of a role, or NULL. */
const struct app_host *app_hosts_find(const struct app_hosts *hosts, const char *role);
/* Gives a planned process the addresses of its role's line. app_bad() when there is no such line,
 * or it has no port and serves. Returns true: the process is on this machine. */
bool app_hosts_place(struct app_hosts *hosts, struct app_net *net, unsigned proc, const char *role,
		     bool serves);
/* app_bad() when a line has a role that no process has; roles: a list of those that exist. */
void app_hosts_check(const struct app_hosts *hosts, const char *roles);
/* Prints that the processes of this machine are ready, and waits until a signal ends this process,
 * or a child ends: app_die(). */
void app_hosts_wait(const struct app_hosts *hosts);
/* Runs call until it returns LEND_OK, since processes of other machines, or of --connect (no path),
 * may start later. Each run
 * should take at most APP_HOSTS_TRY_NS. app_die() after half a minute. */
#define APP_HOSTS_TRY_NS UINT64_C(1000000000)
void app_hosts_await(const struct app_hosts *hosts, enum lend_status (*call)(void *arg), void *arg);

#endif

/* spawn - other processes of a run: started pinned and ready, asked what they moved, and ended.
 *
 * A child is this program again with another subcommand (or lend-mn beside it). It dies with the
 * starter, says "ready ADDRESS" through a pipe when it listens, and "bytes TX RX" each time SIGUSR1
 * asks (bench_server.h does both). Layer: apps. Threads: all from the thread that started them; the
 * kernel ends children with that thread.
 */
#ifndef APPS_COMMON_SPAWN_H
#define APPS_COMMON_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "apps/common/topology.h"

enum { APP_ANY_CPU = -1 };

struct app_child {
	pid_t pid;                     /* 0: not running */
	int fd;                        /* its answers */
	const char *what;              /* for messages: "hop 2" */
	char address[APP_ADDRESS_MAX]; /* where it listens */
};

/* Starts `lend SUBCOMMAND ARGS... --listen L --eal E --cpu N --ready-fd FD` for process proc of the
 * net, waits until it is ready and tells the net its address. argv: subcommand and arguments, NULL
 * at the end. app_die() when it does not come up. */
void app_child_start(struct app_child *child, const char *what, const char *const argv[],
		     struct app_net *net, unsigned proc, int cpu);
/* The same for lend-mn with memory of size bytes. */
void app_child_start_mn(struct app_child *child, struct app_net *net, unsigned proc, uint64_t size,
			int cpu);
/* Bytes that it handed to, and got from, its carriers so far; app_die() when it does not answer.
 * Not for lend-mn: see lend_mem_stat(). */
void app_child_bytes(struct app_child *child, uint64_t *tx_bytes, uint64_t *rx_bytes);
/* The next len bytes from a child that writes on child->fd, at most PIPE_BUF; ends this process
 * when the child has ended instead. */
void app_child_read(struct app_child *child, void *to, size_t len);
/* SIGTERM, and SIGKILL for one that does not go; its exit status as waitpid() gives it. */
int app_child_stop(struct app_child *child);

/* A pipe that programs started later do not inherit; app_die() when there is none. */
void app_pipe(int fds[2]);

/* How many CPUs this process may use, and the i-th of them (modulo their number). */
unsigned app_cpus(void);
int app_cpu(unsigned i);
/* Pins the calling thread; APP_ANY_CPU or a single CPU: does nothing. After lend_open(): threads
 * that a carrier makes of its own (DPDK's) would share the CPU of one that polls, and starve. */
void app_pin(int cpu);
/* Back to all CPUs that the process began with. */
void app_unpin(void);

#endif

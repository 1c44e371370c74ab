/* spawn - child processes of a run: starts them pinned and ready, queries their byte counters, and
 * ends them.
 *
 * A child is this program with another subcommand, or the lend-mn or lend-broker next to it. The
 * kernel kills it when its parent ends. A child prints "ready ADDRESS" to a pipe when it listens,
 * and "bytes TX RX" on each SIGUSR1 (bench_server.h does both). Layer: apps. Threads: use only the
 * thread that started the children; the kernel kills them when that thread ends. */
#ifndef APPS_COMMON_SPAWN_H
#define APPS_COMMON_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "apps/common/topology.h"

enum { APP_ANY_CPU = -1 };

struct app_child {
	pid_t pid;                     /* 0: not running */
	int fd;                        /* read end of its output pipe */
	const char *what;              /* what the child is, for messages: "hop 2" */
	char address[APP_ADDRESS_MAX]; /* address where it listens */
};

/* Starts `lend SUBCOMMAND ARGS... --listen L --eal E --cpu N --ready-fd FD` for process proc of the
 * net, waits until it is ready and stores its address in the net. argv: subcommand and arguments,
 * NULL terminated. app_die() when it does not become ready. */
void app_child_start(struct app_child *child, const char *what, const char *const argv[],
		     struct app_net *net, unsigned proc, int cpu);
/* Like app_child_start(), for lend-mn with memory of size bytes. */
void app_child_start_mn(struct app_child *child, struct app_net *net, unsigned proc, uint64_t size,
			int cpu);
/* Starts lend-broker for the device of process proc, with carriers for n processes that attach at
 * once; child->address becomes broker:NAME. */
void app_child_start_broker(struct app_child *child, struct app_net *net, unsigned proc,
			    const char *name, unsigned n);
/* Starts `lend ARGV...` with its standard output in child->fd, and does not wait for it. By
 * vfork(): a fork would copy this process's page tables, which a measured start must not contain.
 */
void app_child_exec(struct app_child *child, const char *what, const char *const argv[]);
/* Queries the bytes that the child has sent and received through its carriers so far. app_die()
 * when it does not answer. Not for lend-mn, which has lend_mem_stat_get(). */
void app_child_bytes(struct app_child *child, uint64_t *tx_bytes, uint64_t *rx_bytes);
/* Reads the next len bytes, at most PIPE_BUF, from a child that writes to child->fd. Ends this
 * process if the child has ended instead. */
void app_child_read(struct app_child *child, void *to, size_t len);
/* Ends the child with SIGTERM, then SIGKILL if it does not exit. Returns its exit status as
 * waitpid() does. */
int app_child_stop(struct app_child *child);

/* Finds a file next to this program, or in a folder relative to this one's, which ends in "/".
 * Returns false: it is in neither. */
bool app_program_find(const char *name, const char *folder, char *path, size_t cap);

/* Makes a pipe that programs started later do not inherit; app_die() when there is none. */
void app_pipe(int fds[2]);

/* app_cpus() returns how many CPUs this process may use, app_cpu() the i-th of them, modulo their
 * number. */
unsigned app_cpus(void);
int app_cpu(unsigned i);
/* Reads the CPUs of app_cpu() again, after --numa changed them. */
void app_cpus_read(void);
/* Pins the calling thread to a CPU. Does nothing for APP_ANY_CPU, or with a single CPU. Call it
 * after lend_open(): threads that a carrier starts (DPDK's) inherit the affinity, and would share
 * the CPU with a polling thread and starve. */
void app_pin(int cpu);
/* Restores the CPU set that the process started with. */
void app_unpin(void);

#endif

/* eal - starts DPDK's EAL once per process and keeps it quiet; sets up queues.
 *
 * EAL can be started only once, so it stays when the last carrier is closed. While it starts, its
 * log goes to memory, and the last line becomes the reason of a failure. Afterwards the log is
 * discarded, unless $LEND_EAL_LOG is set. If the user gives no arguments, EAL uses no hugepages, no
 * PCI devices and no files.
 *
 * Layer: io. Threads: dpdk_world held, except for dpdk_eal_thread().
 */
#include "io/dpdk/dpdk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include "sys/mapfile.h"
#include "sys/last_error.h"

#define MEMORY_MB  192 /* memory of EAL, unless its arguments give another amount */
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

enum {
	ARGS_MAX = 64,
	LINK_BUFS = 8191,
	QUEUE_SLOTS = 512,
	TASKS_MAX = 1024,
	EAL_FDS = 20, /* including some that it needs only to start */
};

static struct {
	enum { EAL_NEW, EAL_UP, EAL_BROKEN } state;
	struct rte_mempool *pool; /* of rings and memifs */
	pthread_key_t key;        /* its destructor releases the thread's lcore id */
	char text[1024];          /* the arguments, cut */
	char cpus[5 * CPU_SETSIZE + 8], prefix[32];
	char *argv[ARGS_MAX];
	int argc;
	pid_t pid; /* EAL's threads do not survive a fork() */
} eal;

static void leave_thread(void *unused)
{
	(void)unused;
	rte_thread_unregister();
}

/* Writes the CPU list for EAL: one lcore, this thread, on any CPU of the set. By default EAL makes
 * a thread for each CPU. */
static void print_cpus(const cpu_set_t *set)
{
	size_t n = (size_t)snprintf(eal.cpus, sizeof(eal.cpus), "0@(");

	for (int cpu = 0; cpu < CPU_SETSIZE && n < sizeof(eal.cpus) - 8; cpu++) {
		if (CPU_ISSET(cpu, set))
			n += (size_t)snprintf(eal.cpus + n, sizeof(eal.cpus) - n, "%d,", cpu);
	}
	eal.cpus[n - 1] = ')';
}

static void add_word(const char *word)
{
	if (eal.argc < ARGS_MAX - 1)
		eal.argv[eal.argc++] = (char *)(uintptr_t)word;
}

static bool has_word(const char *word)
{
	for (int i = 0; i < eal.argc; i++) {
		if (strncmp(eal.argv[i], word, strlen(word)) == 0)
			return true;
	}
	return false;
}

static int split_args(const char *args)
{
	static const char *const ours[] = {"--no-huge", "-m",          TEXT(MEMORY_MB),
					   "--no-pci",  "--no-shconf", NULL};
	char *save = NULL;

	add_word("lend");
	if (args && strlen(args) >= sizeof(eal.text))
		return lend_fail(EINVAL, "EAL arguments are longer than %zu bytes: shorten them",
				 sizeof(eal.text) - 1);
	if (args) {
		strcpy(eal.text, args);
		for (char *word = strtok_r(eal.text, " \t\n", &save); word;
		     word = strtok_r(NULL, " \t\n", &save))
			add_word(word);
	} else {
		for (int i = 0; ours[i]; i++)
			add_word(ours[i]);
	}
	if (!has_word("--no-telemetry") && !has_word("--telemetry"))
		add_word("--no-telemetry");
	if (!has_word("--file-prefix")) {
		(void)snprintf(eal.prefix, sizeof(eal.prefix), "lend-%d", (int)getpid());
		add_word("--file-prefix");
		add_word(eal.prefix);
	}
	if (!has_word("-l") && !has_word("-c") && !has_word("--lcores")) {
		add_word("--lcores");
		add_word(eal.cpus);
	}
	return 0;
}

/* Copies the last line of EAL's log. */
static void last_line(char *log, char *line, size_t cap)
{
	size_t len = strlen(log);
	char *start;

	while (len > 0 && log[len - 1] == '\n')
		log[--len] = '\0';
	start = strrchr(log, '\n');
	(void)snprintf(line, cap, "%s", start ? start + 1 : log);
}

/* Points a file descriptor at /dev/null. Returns a duplicate of the old one, for restore_stream(),
 * or -1. */
static int silence_stream(FILE *stream, int fd)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC), saved;

	(void)fflush(stream);
	if (null < 0)
		return -1;
	saved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (saved >= 0)
		(void)dup2(null, fd);
	(void)close(null);
	return saved;
}

static void restore_stream(FILE *stream, int fd, int saved)
{
	(void)fflush(stream);
	if (saved < 0)
		return;
	(void)dup2(saved, fd);
	(void)close(saved);
}

/* Starts EAL with stdout and stderr redirected: EAL prints its usage when an argument does not
 * parse. */
static int start_quietly(char *line, size_t cap)
{
	char *log = NULL;
	size_t size = 0;
	FILE *memory = open_memstream(&log, &size);
	int out, err, rc;

	if (memory)
		rte_openlog_stream(memory);
	out = silence_stream(stdout, STDOUT_FILENO);
	err = silence_stream(stderr, STDERR_FILENO);
	rc = rte_eal_init(eal.argc, eal.argv);
	restore_stream(stderr, STDERR_FILENO, err);
	restore_stream(stdout, STDOUT_FILENO, out);
	rte_openlog_stream(getenv("LEND_EAL_LOG") ? stderr : fopen("/dev/null", "w"));
	if (memory)
		(void)fclose(memory);
	last_line(log ? log : (char[]){""}, line, cap);
	free(log);
	return rc;
}

/* Reads this thread's CPUs, and those that it could have. */
static void read_cpus(cpu_set_t *own, cpu_set_t *all)
{
	CPU_ZERO(own);
	(void)sched_getaffinity(0, sizeof(*own), own);
	memset(all, 0xff, sizeof(*all));
	if (sched_setaffinity(0, sizeof(*all), all) == 0)
		(void)sched_getaffinity(0, sizeof(*all), all);
	else
		*all = *own;
	(void)sched_setaffinity(0, sizeof(*own), own);
}

/* Lists up to TASKS_MAX threads of this process. Returns their number. */
static unsigned list_threads(pid_t thread[TASKS_MAX])
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned n = 0;

	while (folder && n < TASKS_MAX && (entry = readdir(folder)) != NULL) {
		thread[n] = (pid_t)strtol(entry->d_name, NULL, 10);
		n += thread[n] > 0;
	}
	if (folder)
		(void)closedir(folder);
	return n;
}

/* Restricts the threads that EAL has started, which are not in before[], to a set of CPUs. */
static void restrict_threads(const pid_t *before, unsigned n, const cpu_set_t *cpus)
{
	pid_t now[TASKS_MAX];
	unsigned n_now = list_threads(now);

	for (unsigned i = 0; i < n_now; i++) {
		unsigned k = 0;

		while (k < n && before[k] != now[i])
			k++;
		if (k == n)
			(void)sched_setaffinity(now[i], sizeof(*cpus), cpus);
	}
}

/* EAL takes memory of its own from the NUMA node of its lcore, and aborts the process if it has
 * none there. An lcore on CPUs of several nodes has no node, and then EAL takes any. So it sees all
 * CPUs while it starts. */
static int start_eal(const char *args)
{
	pid_t before[TASKS_MAX];
	unsigned n = list_threads(before);
	cpu_set_t cpus, all;
	char line[200];
	int rc;

	read_cpus(&cpus, &all);
	print_cpus(&all);
	if (!args && !lend_mapfile_len_allowed((uint64_t)MEMORY_MB << 20))
		return lend_fail(EFBIG,
				 "DPDK's %d MiB of memory are a file, beyond ulimit -f; raise it",
				 MEMORY_MB);
	rc = split_args(args);
	if (rc < 0)
		return rc;
	rc = start_quietly(line, sizeof(line));
	(void)sched_setaffinity(0, sizeof(cpus), &cpus);
	restrict_threads(before, n, &cpus);
	if (rc >= 0)
		return 0;
	return lend_fail(rte_errno == EINVAL || rte_errno == 0 ? EINVAL : rte_errno,
			 "DPDK's EAL does not start (%s): correct the EAL arguments \"%s\"", line,
			 args ? args : "");
}

int dpdk_eal_descriptors(uint32_t n, const char *what)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	uint32_t found = 0;

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	for (int fd = 0; found < n && (rlim_t)fd < limit.rlim_cur; fd++)
		found += fcntl(fd, F_GETFD) < 0;
	return found == n ? 0
			  : lend_fail(EMFILE,
				      "%s needs %u file descriptors and %u are free: raise "
				      "ulimit -n",
				      what, n, found);
}

int dpdk_eal_start(const char *args)
{
	int rc;

	if (eal.state != EAL_NEW && eal.pid != getpid())
		return lend_fail(
		    ENODEV,
		    "DPDK's EAL was started before this process was forked: fork first, or exec");
	if (eal.state == EAL_UP)
		return 0;
	if (eal.state == EAL_BROKEN)
		return lend_fail(
		    ENODEV, "DPDK's EAL failed in this process before: start the process again");
	rc = dpdk_eal_descriptors(EAL_FDS, "dpdk: EAL");
	if (rc < 0)
		return rc;
	if (args == NULL)
		args = getenv("LEND_EAL");
	eal.argc = 0;
	eal.pid = getpid();
	rc = start_eal(args);
	if (rc < 0) {
		eal.state = rc == -EINVAL ? EAL_NEW : EAL_BROKEN;
		return rc;
	}
	eal.state = EAL_BROKEN;
	if (pthread_key_create(&eal.key, leave_thread) != 0)
		return lend_fail(ENOMEM, "no thread key is left for DPDK");
	eal.pool = dpdk_pool_make(LINK_BUFS, DPDK_FRAME_MAX, SOCKET_ID_ANY);
	if (eal.pool == NULL)
		return -ENOMEM;
	dpdk_telemetry_start();
	eal.state = EAL_UP;
	return 0;
}

struct rte_mempool *dpdk_eal_pool(void)
{
	return eal.pool;
}

void dpdk_eal_thread(void)
{
	if (rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0)
		(void)pthread_setspecific(eal.key, &eal);
}

int dpdk_eal_queues(uint16_t id, const char *what, const struct dpdk_queues *queues,
		    const struct rte_eth_conf *conf)
{
	uint16_t rx = QUEUE_SLOTS, tx = QUEUE_SLOTS;
	int rc, err;

	err =
	    getenv("LEND_EAL_LOG") ? -1 : silence_stream(stderr, STDERR_FILENO); /* libxdp prints */
	rc = rte_eth_dev_configure(id, queues->rx, queues->tx, conf);
	if (rc == 0)
		rc = rte_eth_dev_adjust_nb_rx_tx_desc(id, &rx, &tx);
	for (uint16_t q = 0; q < queues->rx && rc == 0; q++)
		rc = rte_eth_rx_queue_setup(id, q, rx, (unsigned)queues->socket, NULL,
					    queues->pool[q]);
	for (uint16_t q = 0; q < queues->tx && rc == 0; q++)
		rc = rte_eth_tx_queue_setup(id, q, tx, (unsigned)queues->socket, NULL);
	restore_stream(stderr, STDERR_FILENO, err);
	if (rc < 0)
		return lend_fail(ENODEV, "%s: DPDK cannot set up its queues: %s", what,
				 rte_strerror(-rc));
	return 0;
}

int dpdk_eal_port(uint16_t id, const char *what, uint16_t n, int *started)
{
	struct rte_mempool *const pool[DPDK_ROUTES] = {eal.pool, eal.pool};
	const struct dpdk_queues queues = {n, n, SOCKET_ID_ANY, pool};
	const struct rte_eth_conf conf = {0};
	int rc = dpdk_eal_queues(id, what, &queues, &conf);

	if (rc < 0)
		return rc;
	*started = rte_eth_dev_start(id);
	(void)rte_eth_promiscuous_enable(id);
	return 0;
}

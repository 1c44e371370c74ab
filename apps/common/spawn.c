/* spawn - see spawn.h. */
#include "apps/common/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "util/check.h"

enum { ARGV_MAX = 64, LINE_MAX_LEN = 512, READY_MS = 15000, ANSWER_MS = 200 };

struct argv {
	const char *word[ARGV_MAX + 1];
	unsigned n;
	char text[4][24]; /* numbers */
	unsigned texts;
};

static void push(struct argv *argv, const char *word)
{
	LEND_CHECK(argv->n < ARGV_MAX);
	argv->word[argv->n++] = word;
	argv->word[argv->n] = NULL;
}

static void push_number(struct argv *argv, const char *option, long long value)
{
	char *text = argv->text[argv->texts++];

	snprintf(text, sizeof(argv->text[0]), "%lld", value);
	push(argv, option);
	push(argv, text);
}

static void push_listen(struct argv *argv, const struct app_net *net, unsigned proc)
{
	if (app_net_listen(net, proc)) {
		push(argv, "--listen");
		push(argv, app_net_listen(net, proc));
	}
	if (app_net_eal(net, proc)) {
		push(argv, "--eal");
		push(argv, app_net_eal(net, proc));
	}
}

/* Makes the kernel kill this child, not its starter, when memory runs short: the starter can then
 * report it. */
static void prefer_as_victim(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "500", 3);
	close(fd);
}

/* Runs in the child, with only those calls that are safe after a fork. */
static _Noreturn void exec_child(const char *path, const struct argv *argv, pid_t parent, int cpu)
{
	cpu_set_t set;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prefer_as_victim();
	if (getppid() != parent)
		_exit(APP_EXIT_FAILED);
	if (cpu >= 0) {
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	execv(path, (char *const *)(uintptr_t)argv->word);
	dprintf(STDERR_FILENO,
		"%s: cannot start %s (%s): build it, or run lend from its build folder\n",
		argv->word[0], path, strerror(errno));
	_exit(127);
}

/* Reads the next line from the child, within ms. Returns its length; 0: the time is over; -1: the
 * child is gone. */
static int read_line(int fd, char *line, size_t cap, int ms)
{
	lend_ns until = app_now() + (lend_ns)ms * 1000000;
	size_t len = 0;

	while (len + 1 < cap) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		lend_ns now = app_now();

		if (poll(&wait, 1, now < until ? (int)((until - now) / 1000000) : 0) < 0 &&
		    errno != EINTR)
			return -1;
		if (!wait.revents && app_now() >= until)
			return 0;
		if (!wait.revents)
			continue;
		if (read(fd, line + len, 1) != 1)
			return -1;
		if (line[len] == '\n')
			break;
		len++;
	}
	line[len] = 0;
	return (int)len + 1;
}

/* Finds the first token of a line that is an address. */
static bool find_address(char *line, char *address)
{
	char *rest = NULL;

	for (char *word = strtok_r(line, " \t,", &rest); word;
	     word = strtok_r(NULL, " \t,", &rest)) {
		/* "lend-mn:" ends with its colon, an address does not. */
		if (strcspn(word, ":") + 1 >= strlen(word))
			continue;
		snprintf(address, APP_ADDRESS_MAX, "%s", word);
		return true;
	}
	return !strncmp(line, "ready", 5);
}

/* Ends this process like a child that ended too early. */
static _Noreturn void end_with(const struct app_child *child, int status)
{
	if (!WIFEXITED(status))
		app_die("%s was killed by signal %d%s", child->what, WTERMSIG(status),
			app_why_killed(WTERMSIG(status)));
	exit(APP_EXIT_FAILED); /* the child has printed the reason */
}

static void wait_ready(struct app_child *child)
{
	char line[LINE_MAX_LEN];
	lend_ns until = app_now() + (lend_ns)READY_MS * 1000000;
	int len, status;

	while ((len = read_line(child->fd, line, sizeof(line), READY_MS)) > 0 && app_now() < until)
		if (find_address(line, child->address))
			return;
	status = app_child_stop(child);
	if (len == 0)
		app_die("%s was not ready within %d s; is the machine overloaded?", child->what,
			READY_MS / 1000);
	end_with(child, status);
}

/* Starts a child that writes to write_fd: as its stdout if to_stdout is set. */
static void start_child(struct app_child *child, const char *path, const struct argv *argv,
			int fds[2], bool to_stdout, int cpu)
{
	pid_t parent = getpid();

	fflush(NULL);
	child->pid = fork();
	if (child->pid < 0)
		app_die("cannot start %s: %s; end some processes", child->what, strerror(errno));
	if (child->pid == 0) {
		if (to_stdout)
			dup2(fds[1], STDOUT_FILENO);
		else
			fcntl(fds[1], F_SETFD, 0);
		exec_child(path, argv, parent, cpu);
	}
	close(fds[1]);
	child->fd = fds[0];
	child->address[0] = 0;
	wait_ready(child);
}

void app_pipe(int fds[2])
{
	if (pipe2(fds, O_CLOEXEC) < 0)
		app_die("cannot make a pipe: %s; raise ulimit -n", strerror(errno));
}

void app_child_start(struct app_child *child, const char *what, const char *const args[],
		     struct app_net *net, unsigned proc, int cpu)
{
	struct argv argv = {.n = 0};
	int fds[2];

	child->what = what;
	app_pipe(fds);
	push(&argv, "lend");
	for (unsigned i = 0; args[i]; i++)
		push(&argv, args[i]);
	push_listen(&argv, net, proc);
	push_number(&argv, "--cpu", cpu);
	push_number(&argv, "--ready-fd", fds[1]);
	start_child(child, "/proc/self/exe", &argv, fds, false,
		    APP_ANY_CPU); /* the child pins itself to its CPU */
	app_net_ready(net, proc, child->address);
}

bool app_program_find(const char *name, const char *folder, char *path, size_t cap)
{
	const char *const folders[] = {"", folder};
	char self[3072];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[len < 0 ? 0 : len] = 0;
	*(strrchr(self, '/') ? strrchr(self, '/') + 1 : self) = 0;
	for (unsigned i = 0; i < 2; i++) {
		(void)snprintf(path, cap, "%s%s%s", self, folders[i], name);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

void app_child_start_mn(struct app_child *child, struct app_net *net, unsigned proc, uint64_t size,
			int cpu)
{
	struct argv argv = {.n = 0};
	char path[4096];
	int fds[2];

	child->what = "the memory node";
	if (!app_program_find("lend-mn", "", path, sizeof(path)))
		app_die("cannot find lend-mn (%s): build it, or mount /proc", path);
	app_pipe(fds);
	push(&argv, "lend-mn");
	push_listen(&argv, net, proc);
	push_number(&argv, "--size", (long long)size * (net->workers ? net->workers : 1));
	if (net->page)
		push_number(&argv, "--page", net->page);
	if (net->populate)
		push(&argv, "--populate");
	if (net->memory) {
		push(&argv, "--memory");
		push(&argv, net->memory);
	}
	if (net->metrics) {
		push(&argv, "--metrics");
		push(&argv, net->metrics);
	}
	if (net->workers)
		push_number(&argv, "--workers", net->workers);
	if (net->carrier == APP_DPDK_MEMIF)
		cpu = APP_ANY_CPU; /* DPDK's own threads need a CPU too */
	start_child(child, path, &argv, fds, true, cpu);
	app_net_ready(net, proc, child->address);
}

void app_child_start_broker(struct app_child *child, struct app_net *net, unsigned proc,
			    const char *name, unsigned n)
{
	struct argv argv = {.n = 0};
	char path[4096];
	int fds[2];

	child->what = "the broker";
	if (!app_program_find("lend-broker", "", path, sizeof(path)))
		app_die("cannot find lend-broker (%s): build it, or mount /proc", path);
	app_pipe(fds);
	push(&argv, "lend-broker");
	push(&argv, "--name");
	push(&argv, name);
	push(&argv, "--device");
	push(&argv, app_net_listen(net, proc));
	push_number(&argv, "--spares", n);
	if (app_net_eal(net, proc)) {
		push(&argv, "--eal");
		push(&argv, app_net_eal(net, proc));
	}
	start_child(child, path, &argv, fds, true, APP_ANY_CPU);
	app_net_ready(net, proc, child->address);
}

/* Runs in the child of vfork(), which shares our memory: only system calls. */
static _Noreturn void exec_self(const char *const argv[], int out)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)dup2(out, STDOUT_FILENO);
	execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	_exit(127);
}

void app_child_exec(struct app_child *child, const char *what, const char *const argv[])
{
	int fds[2];

	app_pipe(fds);
	child->what = what;
	child->pid = vfork();
	if (child->pid == 0)
		exec_self(argv, fds[1]);
	close(fds[1]);
	if (child->pid < 0)
		app_die("cannot start %s: %s; end some processes", what, strerror(errno));
	child->fd = fds[0];
	child->address[0] = 0;
}

void app_child_bytes(struct app_child *child, uint64_t *tx_bytes, uint64_t *rx_bytes)
{
	char line[LINE_MAX_LEN];

	for (int i = 0; i < READY_MS / ANSWER_MS; i++) {
		int len;

		kill(child->pid, SIGUSR1);
		len = read_line(child->fd, line, sizeof(line), ANSWER_MS);
		if (len < 0)
			break;
		if (len > 0 && sscanf(line, "bytes %" SCNu64 " %" SCNu64, tx_bytes, rx_bytes) == 2)
			return;
	}
	app_die("%s no longer answers; see its own line above", child->what);
}

void app_child_read(struct app_child *child, void *to, size_t len)
{
	if (read(child->fd, to, len) != (ssize_t)len)
		end_with(child, app_child_stop(child));
}

int app_child_stop(struct app_child *child)
{
	const struct timespec delay = {.tv_nsec = 5000000};
	int status = 0;

	if (child->pid <= 0)
		return 0;
	for (int i = 0; waitpid(child->pid, &status, WNOHANG) == 0; i++) {
		if (i % 20 ==
		    0) /* repeated: the first signal may arrive before the child handles it */
			kill(child->pid, i < 600 ? SIGTERM : SIGKILL);
		nanosleep(&delay, NULL);
	}
	close(child->fd);
	child->pid = 0;
	return status;
}

/* The CPU set at process start or of --numa, read by a constructor: pinning by this program or by a
 * library (DPDK's EAL pins the calling thread) must not shrink it. */
static cpu_set_t cpus_at_start;

__attribute__((constructor)) void app_cpus_read(void)
{
	CPU_ZERO(&cpus_at_start);
	if (sched_getaffinity(0, sizeof(cpus_at_start), &cpus_at_start) < 0)
		CPU_SET(0, &cpus_at_start);
}

unsigned app_cpus(void)
{
	return (unsigned)CPU_COUNT(&cpus_at_start);
}

int app_cpu(unsigned i)
{
	unsigned left = i % app_cpus();

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus_at_start) && left-- == 0)
			return cpu;
	return 0;
}

void app_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0 || app_cpus() < 2)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		app_note("cannot stay on CPU %d (%s): figures will vary more", cpu,
			 strerror(errno));
}

void app_unpin(void)
{
	(void)sched_setaffinity(0, sizeof(cpus_at_start), &cpus_at_start);
}

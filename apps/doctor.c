/* doctor - what this machine offers, and the mend for each lack.
 *
 * Carriers are tried for real, each in a child process of its own, so that a library that ends the
 * process or prints its own lines does neither here. Layer: apps. Threads: one.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/line.h"
#include "apps/common/report.h"
#include "apps/common/spawn.h"

enum { FOUND_MAX = 320, MEND_MAX = 200, CHECKS_MAX = 24 };

struct finding {
	const char *name;
	bool ok;
	char found[FOUND_MAX];
	const char *mend; /* of the lack; not said when ok */
};

struct visit {
	struct finding finding[CHECKS_MAX];
	unsigned n;
};

static struct finding *note(struct visit *v, const char *name, bool ok, const char *mend)
{
	struct finding *f = &v->finding[v->n++];

	f->name = name;
	f->ok = ok;
	f->mend = mend;
	return f;
}

/* The first line of a small file; false without one. */
static bool first_line(const char *path, char *text, int cap)
{
	FILE *file = fopen(path, "re");
	bool good = file && fgets(text, cap, file);

	if (file)
		fclose(file);
	if (good)
		text[strcspn(text, "\n")] = 0;
	return good;
}

static void try_open(const char *listen, int fd)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep;
	char address[160] = "";

	config.listen = listen;
	if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout))
		_exit(2);
	if (lend_open(&config, &ep) < 0) {
		dprintf(fd, "%s", lend_why());
		_exit(1);
	}
	lend_address(ep, address, sizeof(address));
	lend_close(ep);
	dprintf(fd, "%s", address);
	_exit(0);
}

static void carrier(struct visit *v, const char *name, const char *listen, const char *mend)
{
	struct finding *f = note(v, name, false, mend);
	int fds[2], status = -1;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	fflush(NULL);
	if (pipe(fds) < 0 || (pid = fork()) < 0) {
		snprintf(f->found, sizeof(f->found), "not tried: %s", strerror(errno));
		return;
	}
	if (pid == 0)
		try_open(listen, fds[1]);
	close(fds[1]);
	while (len + 1 < sizeof(f->found) &&
	       (n = read(fds[0], f->found + len, sizeof(f->found) - 1 - len)) > 0)
		len += (size_t)n;
	f->found[len] = 0;
	close(fds[0]);
	waitpid(pid, &status, 0);
	f->ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (!len)
		snprintf(f->found, sizeof(f->found), f->ok ? "opens" : "the attempt itself died");
}

static void cpus(struct visit *v)
{
	struct finding *f = note(v, "cpus", app_cpus() >= 2,
				 "give the machine or container two CPUs: both ends share one");
	double ns = app_line_ns(app_cpu(0), app_cpu(1));

	snprintf(f->found, sizeof(f->found),
		 "%u usable; a cache line there and back takes %.0f ns (%s)", app_cpus(), ns,
		 app_line_name(ns));
}

static void run_dir(struct visit *v)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	struct stat st;
	char other[64];
	struct finding *f =
	    note(v, "runtime folder", true,
		 "export XDG_RUNTIME_DIR=$(mktemp -d), a folder of your own with mode 0700");

	snprintf(other, sizeof(other), "/run/user/%u", (unsigned)getuid());
	if (dir && *dir) {
		f->ok = stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == getuid() &&
			access(dir, W_OK) == 0;
		snprintf(f->found, sizeof(f->found), "XDG_RUNTIME_DIR=%.200s%s", dir,
			 f->ok ? "" : " is not a folder of yours that you can write");
		return;
	}
	if (stat(other, &st) != 0 || st.st_uid != getuid())
		snprintf(other, sizeof(other), "/tmp/lend-%u", (unsigned)getuid());
	snprintf(f->found, sizeof(f->found), "XDG_RUNTIME_DIR is not set; %s serves", other);
}

static void hugepages(struct visit *v)
{
	struct finding *f =
	    note(v, "hugepages", false,
		 "nothing needs them; for less TLB misses: sysctl vm.nr_hugepages=512 as root");
	char line[160], thp[160] = "none";
	long total = 0, unused = 0;
	FILE *file = fopen("/proc/meminfo", "re");

	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "HugePages_Total: %ld", &total);
		sscanf(line, "HugePages_Free: %ld", &unused);
	}
	if (file)
		fclose(file);
	first_line("/sys/kernel/mm/transparent_hugepage/enabled", thp, sizeof(thp));
	f->ok = unused > 0;
	snprintf(f->found, sizeof(f->found), "%ld reserved, %ld free; transparent: %s", total,
		 unused, thp);
}

static void perf(struct visit *v)
{
	struct finding *f = note(v, "perf", false,
				 "only for profiling: sysctl kernel.perf_event_paranoid=1 as root");
	char line[64] = "";

	if (!first_line("/proc/sys/kernel/perf_event_paranoid", line, sizeof(line))) {
		snprintf(f->found, sizeof(f->found), "the kernel has no performance events");
		return;
	}
	f->ok = atoi(line) <= 1 || geteuid() == 0;
	snprintf(f->found, sizeof(f->found), "perf_event_paranoid is %s", line);
}

static void rdma(struct visit *v)
{
	struct finding *f = note(
	    v, "rdma", false,
	    "only for verbs: an RDMA card, or soft-RoCE (rdma link add rxe0 type rxe netdev DEV)");
	DIR *dir = opendir("/sys/class/infiniband");
	struct dirent *entry;

	snprintf(f->found, sizeof(f->found), "no device");
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		f->ok = true;
		snprintf(f->found, sizeof(f->found), "%s", entry->d_name);
	}
	if (dir)
		closedir(dir);
}

static void limits(struct visit *v)
{
	struct finding *f =
	    note(v, "open files", true, "ulimit -n 1024: each shm session takes three");
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit);
	f->ok = limit.rlim_cur >= 256;
	snprintf(f->found, sizeof(f->found), "up to %llu", (unsigned long long)limit.rlim_cur);
}

static void programs(struct visit *v)
{
	struct finding *f =
	    note(v, "lend-mn", false, "build it (scripts/build.sh), or keep it beside lend");
	char path[4096];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 16);
	char *slash;

	if (len > 0) {
		path[len] = 0;
		slash = strrchr(path, '/');
		memcpy(slash + 1, "lend-mn", sizeof("lend-mn"));
		f->ok = access(path, X_OK) == 0;
	}
	snprintf(f->found, sizeof(f->found), f->ok ? "beside lend" : "not beside lend");
	f = note(v, "images", &app_images != NULL, "install libturbojpeg0-dev and build again");
	snprintf(f->found, sizeof(f->found),
		 f->ok ? "lend images and lend demo are in this build" : "not in this build");
}

static void report_json(const struct visit *v)
{
	struct app_report report;

	for (unsigned i = 0; i < v->n; i++) {
		const struct finding *f = &v->finding[i];

		fputs(i ? ", " : "{\"checks\": [", stdout);
		app_report_begin(&report, true, "");
		app_report_text(&report, "name", f->name, "");
		app_report_bool(&report, "ok", f->ok, "");
		app_report_text(&report, "found", f->found, "");
		app_report_text(&report, "mend", f->ok ? "" : f->mend, "");
		fputs("}", stdout);
	}
	puts("]}");
}

static void report_table(const struct visit *v)
{
	for (unsigned i = 0; i < v->n; i++) {
		const struct finding *f = &v->finding[i];

		printf("%-4s %-15s %s\n", f->ok ? "ok" : "-", f->name, f->found);
		if (!f->ok)
			printf("     %-15s mend: %s\n", "", f->mend);
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != 'j')
		return ARGP_ERR_UNKNOWN;
	*(bool *)state->input = true;
	return 0;
}

int app_doctor(int argc, char **argv)
{
	static const struct argp_option options[] = {
	    {"json", 'j', NULL, 0, "One JSON object on one line", 0}, {0}};
	static const struct argp argp = {
	    .options = options,
	    .parser = parse,
	    .doc = "Tells what this machine offers, and the mend for each lack."};
	static struct visit visit;
	bool json = false;
	char shm[64];

	app_parse(&argp, argc, argv, &json);
	snprintf(shm, sizeof(shm), "shm:doctor-%d", (int)getpid());
	cpus(&visit);
	run_dir(&visit);
	carrier(&visit, "shm", shm, "mend the runtime folder above");
	carrier(&visit, "udp", "udp:127.0.0.1:0", "bring the loopback up: ip link set lo up");
	carrier(&visit, "dpdk-ring", "dpdk:ring@127.0.0.1:0",
		"install libdpdk-dev and build again");
	carrier(&visit, "dpdk-memif", "dpdk:memif@127.0.0.1:0",
		"install libdpdk-dev and build again; give a runtime folder");
	hugepages(&visit);
	perf(&visit);
	rdma(&visit);
	limits(&visit);
	programs(&visit);
	if (json)
		report_json(&visit);
	else
		report_table(&visit);
	return APP_EXIT_OK;
}

/* doctor - what this machine supports, and a fix for each lack.
 *
 * Each carrier is really opened, in a child process of its own, so that a library that ends the
 * process or prints its own lines does not affect this process. Layer: apps. Threads: one. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/cacheline_rtt.h"
#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/common/spawn.h"
#include "apps/tools/doctor.h"
#include "apps/tools/top.h"
#include "lend/alloc.h"

struct finding *doctor_note(struct visit *v, const char *name, bool ok, const char *fix)
{
	struct finding *f = &v->finding[v->n];

	if (v->n + 1 < DOCTOR_CHECKS_MAX) /* when full, the last one is overwritten */
		v->n++;
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->ok = ok;
	f->found[0] = 0;
	f->fix = fix;
	return f;
}

/* Reads the first line of a small file; returns false when there is none. */
bool doctor_first_line(const char *path, char *text, int cap)
{
	FILE *file = fopen(path, "re");
	bool good = file && fgets(text, cap, file);

	if (file)
		fclose(file);
	if (good)
		text[strcspn(text, "\n")] = 0;
	return good;
}

static void try_open(const char *listen, const char *eal, int fd)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep;
	char address[160] = "";

	config.listen = listen;
	config.eal = eal;
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

void doctor_carrier(struct visit *v, const char *name, const char *listen, const char *eal,
		    const char *fix)
{
	struct finding *f = doctor_note(v, name, false, fix);
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
		try_open(listen, eal, fds[1]);
	close(fds[1]);
	while (len + 1 < sizeof(f->found) &&
	       (n = read(fds[0], f->found + len, sizeof(f->found) - 1 - len)) > 0)
		len += (size_t)n;
	f->found[len] = 0;
	close(fds[0]);
	waitpid(pid, &status, 0);
	f->ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (v->no_endpoint)
		f->fix = "fix the keys above";
	if (!len)
		snprintf(f->found, sizeof(f->found), f->ok ? "opens" : "the attempt itself died");
}

void doctor_dpdk(struct visit *v, const char *name, const char *listen, const char *eal,
		 const char *fix)
{
	struct finding *f = &v->finding[v->n];

	doctor_carrier(v, name, listen, eal, fix);
	if (!f->ok && strstr(f->found, "libdpdk-dev")) /* the error of a missing module */
		f->fix = "install libdpdk-dev and build again";
}

static void check_cpus(struct visit *v)
{
	struct finding *f =
	    doctor_note(v, "cpus", app_cpus() >= 2,
			"give the machine or container two CPUs: both ends share one");
	double ns = app_cacheline_ns(app_cpu(0), app_cpu(1));

	snprintf(f->found, sizeof(f->found),
		 "%u usable; a cache line there and back takes %.0f ns (%s)", app_cpus(), ns,
		 app_cacheline_name(ns));
}

static void run_dir(struct visit *v)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	struct stat st;
	char other[64];
	struct finding *f =
	    doctor_note(v, "runtime folder", true,
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

/* Returns the kind of huge pages that endpoints and buffers get. It allocates some, since reserved
 * pages may all be in use. */
static const char *large_memory(const char *thp)
{
	void *memory = lend_malloc(4 << 20);
	struct lend_alloc_stat stat;

	lend_alloc_stat_get(&stat);
	lend_free(memory);
	if (stat.huge > 0)
		return "reserved";
	return strstr(thp, "[always]") || strstr(thp, "[madvise]") ? "transparent" : "no";
}

static void check_hugepages(struct visit *v)
{
	struct finding *f = doctor_note(
	    v, "hugepages", false,
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
	doctor_first_line("/sys/kernel/mm/transparent_hugepage/enabled", thp, sizeof(thp));
	f->ok = unused > 0;
	snprintf(f->found, sizeof(f->found),
		 "%ld reserved, %ld free; transparent: %s; endpoints lie on %s huge pages", total,
		 unused, thp, large_memory(thp));
}

/* Checks the memory that peers over shm read in place. Its pages are small unless the system allows
 * huge pages for such files. */
static void shared_memory(struct visit *v)
{
	struct finding *f = doctor_note(v, "shared memory", false,
					"raise ulimit -v and ulimit -f: long messages over shm are "
					"copied until then");
	void *memory = lend_malloc_shared(1);
	char thp[160] = "never";

	doctor_first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", thp, sizeof(thp));
	f->ok = memory != NULL;
	snprintf(f->found, sizeof(f->found), "long messages over shm %s; huge pages there: %s",
		 f->ok ? "are read where they lie" : "are copied", thp);
	lend_free(memory);
}

/* Sums up what this user's endpoints at shm report of their arguments by reference. */
static void check_references(struct visit *v)
{
	struct finding *f = doctor_note(v, "references", true,
					"lend top shows which process; let endpoints listen on "
					"their peers' carriers, and see Pools in OPERATING.md");
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ref_stats sum = {0};
	static struct top top;
	unsigned n = 0;

	snprintf(f->found, sizeof(f->found), "no endpoint can be opened");
	if (lend_open(&config, &top.ep) < 0)
		return;
	top_query(&top);
	for (unsigned i = 0; i < top.n; i++) {
		const struct lend_stats_head *head = &top.server[i].now.head;

		n += head->size > 0;
		sum.in_place += head->refs.in_place;
		sum.copied += head->refs.copied;
		sum.by_value += head->refs.by_value;
		sum.expired += head->refs.expired;
		sum.relayed += head->refs.relayed;
	}
	(void)top_end(&top);
	lend_close(top.ep);
	f->ok = !sum.copied && !sum.by_value;
	snprintf(f->found, sizeof(f->found),
		 "%u endpoints at shm: %" PRIu64 " arguments read in place, %" PRIu64
		 " copied, %" PRIu64 " sent by value, %" PRIu64 " expired, %" PRIu64
		 " bytes relayed",
		 n, sum.in_place, sum.copied, sum.by_value, sum.expired, sum.relayed);
}

static void check_perf(struct visit *v)
{
	struct finding *f = doctor_note(
	    v, "perf", false, "only for profiling: sysctl kernel.perf_event_paranoid=1 as root");
	char line[64] = "";

	if (!doctor_first_line("/proc/sys/kernel/perf_event_paranoid", line, sizeof(line))) {
		snprintf(f->found, sizeof(f->found), "the kernel has no performance events");
		return;
	}
	f->ok = atoi(line) <= 1 || geteuid() == 0;
	snprintf(f->found, sizeof(f->found), "perf_event_paranoid is %s", line);
}

/* Checks userfaultfd, which lend_space_pointer() needs over a network. */
static void check_faults(struct visit *v)
{
	struct finding *f = doctor_note(
	    v, "userfaultfd", true,
	    "Linux 5.7, and a seccomp profile that allows it; without it spaces are read "
	    "and written by operations");
	struct uffdio_api api = {.api = UFFD_API};
	const char *reach = "spaces can be memory, for system calls too";
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 && errno == EPERM) {
		reach = "spaces can be memory; what a system call is to use, prefetch";
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	}
	if (fd < 0)
		reach = strerror(errno);
	f->ok = fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 &&
		(api.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP);
	snprintf(f->found, sizeof(f->found), "%s",
		 f->ok || fd < 0 ? reach : "stores are not reported");
	if (fd >= 0)
		close(fd);
}

static void check_limits(struct visit *v)
{
	struct finding *f =
	    doctor_note(v, "open files", true, "ulimit -n 1024: each shm session takes three");
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit);
	f->ok = limit.rlim_cur >= 256;
	snprintf(f->found, sizeof(f->found), "up to %llu", (unsigned long long)limit.rlim_cur);
}

static void check_programs(struct visit *v)
{
	struct finding *f = doctor_note(v, "lend-mn", false,
					"build it (scripts/build.sh), or keep it next to lend");
	char path[4096];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 16);
	char *slash;

	if (len > 0) {
		path[len] = 0;
		slash = strrchr(path, '/');
		memcpy(slash + 1, "lend-mn", sizeof("lend-mn"));
		f->ok = access(path, X_OK) == 0;
	}
	snprintf(f->found, sizeof(f->found), f->ok ? "next to lend" : "not next to lend");
	f = doctor_note(v, "images", &app_images != NULL,
			"install libturbojpeg0-dev and build again");
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
		app_report_text(&report, "fix", f->ok ? "" : f->fix, "");
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
			printf("     %-15s fix:  %s\n", "", f->fix);
	}
}

struct args {
	bool json;
};

int app_doctor(int argc, char **argv)
{
	static const struct lend_option options[] = {
	    OPT_FLAG(struct args, json, "json", "One JSON object on one line", .key = 'j'),
	    {.name = NULL}};
	static const struct lend_syntax syntax = {
	    .option = options,
	    .doc = "Tells what this machine offers, and how to fix what is missing.\v"
		   "  lend doctor\n"
		   "  lend doctor --json | jq '.checks[] | select(.ok | not) | .fix'"};
	static struct visit visit;
	struct args args = {.json = false};
	char shm[64];

	app_options_read(&syntax, argc, argv, &args);
	snprintf(shm, sizeof(shm), "shm:doctor-%d", (int)getpid());
	check_cpus(&visit);
	run_dir(&visit);
	doctor_keys(&visit);
	doctor_sealing(&visit);
	doctor_carrier(&visit, "shm", shm, NULL, "fix the runtime folder above");
	doctor_carrier(&visit, "udp", "udp:127.0.0.1:0", NULL,
		       "bring the loopback up: ip link set lo up");
	doctor_dpdk(&visit, "dpdk:ring", "dpdk:ring@127.0.0.1:0", NULL,
		    "LEND_EAL_LOG=1 lend doctor shows what DPDK lacks");
	doctor_dpdk(&visit, "dpdk:memif", "dpdk:memif@127.0.0.1:0", NULL,
		    "fix the runtime folder above; LEND_EAL_LOG=1 lend doctor shows more");
	check_hugepages(&visit);
	shared_memory(&visit);
	check_references(&visit);
	doctor_devices(&visit);
	check_perf(&visit);
	check_faults(&visit);
	check_limits(&visit);
	check_programs(&visit);
	doctor_grpc(&visit);
	if (args.json)
		report_json(&visit);
	else
		report_table(&visit);
	return APP_EXIT_OK;
}

/* shaped_link - see shaped_link.h. */
#include "apps/common/shaped_link.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/common/options.h"

#define FIX "; raise sysctl user.max_user_namespaces and user.max_net_namespaces, or run as root"

static int end[2] = {-1, -1}; /* namespaces of the near end and of the far one */

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		app_die("no link can be made: %s: %s" FIX, path, strerror(errno));
	close(fd);
}

/* Becomes root of a user namespace. */
static void become_root(void)
{
	char uid[48], gid[48];

	(void)snprintf(uid, sizeof(uid), "0 %u 1", (unsigned)geteuid());
	(void)snprintf(gid, sizeof(gid), "0 %u 1", (unsigned)getegid());
	if (unshare(CLONE_NEWUSER) < 0)
		app_die("no link can be made: no user namespace: %s" FIX, strerror(errno));
	write_file("/proc/self/setgroups", "deny");
	write_file("/proc/self/uid_map", uid);
	write_file("/proc/self/gid_map", gid);
}

static int make_namespace(void)
{
	int fd;

	if (unshare(CLONE_NEWNET) < 0)
		app_die("no link can be made: no network namespace: %s" FIX, strerror(errno));
	fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		app_die("no link can be made: /proc/self/ns/net: %s; mount /proc", strerror(errno));
	return fd;
}

/* Runs a command. If it fails, the last line of its output is the reason in app_die(). */
static void run_command(const char *command)
{
	char line[512], why[256] = "";
	FILE *out;

	(void)snprintf(line, sizeof(line), "PATH=$PATH:/usr/sbin:/sbin; { %s; } 2>&1", command);
	out = popen(line, "re");
	while (out && fgets(line, sizeof(line), out))
		(void)snprintf(why, sizeof(why), "%.*s", (int)strcspn(line, "\n"), line);
	if (!out || pclose(out) != 0)
		app_die("no link can be made: %s; install iproute2, and load the kernel's modules "
			"veth and sch_tbf",
			*why ? why : command);
}

static void shape_end(const char *address, unsigned mbit)
{
	char command[300];

	/* A bucket of 1 ms, at least two frames of 64 KiB; behind it a queue of 4 ms. */
	unsigned bucket = mbit * 125 > 131072 ? mbit * 125 : 131072;

	(void)snprintf(command, sizeof(command),
		       "ip addr add %s/24 dev lend0 && ip link set lo up && ip link set lend0 up "
		       "&& tc qdisc add dev lend0 root tbf rate %umbit burst %u limit %u",
		       address, mbit, bucket, bucket + 4 * mbit * 125);
	run_command(command);
}

void app_link_make(unsigned mbit)
{
	char command[160];

	if (geteuid() != 0)
		become_root();
	end[1] = make_namespace();
	end[0] = make_namespace();
	(void)snprintf(command, sizeof(command),
		       "ip link add lend0 type veth peer name lend0 netns /proc/%d/fd/%d",
		       (int)getpid(), end[1]);
	run_command(command);
	shape_end(APP_LINK_NEAR, mbit);
	app_link_enter(true);
	shape_end(APP_LINK_FAR, mbit);
	app_link_enter(false);
}

void app_link_enter(bool far)
{
	if (setns(end[far], CLONE_NEWNET) < 0)
		app_die("cannot enter the link's namespace: %s" FIX, strerror(errno));
}

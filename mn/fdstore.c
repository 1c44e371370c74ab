#include "mn/fdstore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mn/notify.h"
#include "sys/last_error.h"

enum { FIRST_FD = 3, FDS_MAX = 1024, NAME_MAX_LEN = 32 };

static void name_of(char name[NAME_MAX_LEN], uint32_t worker, enum mn_fdstore_part part)
{
	(void)snprintf(name, NAME_MAX_LEN, "lend-%s-%u",
		       part == MN_FDSTORE_PAGES ? "pages" : "arena", worker);
}

int mn_fdstore_check(const struct mn_config *config)
{
	if (!mn_notify_is_heard())
		return lend_fail(EINVAL,
				 "--keep: no service manager (NOTIFY_SOCKET is not set); run "
				 "this as a systemd service with FileDescriptorStoreMax=");
	/* The next start copies sealed memory, so the pages that clients have mapped from this one
	 * do not change. */
	if (config->pool && strchr(config->memory, '/'))
		return lend_fail(EINVAL,
				 "--keep: the next start would change what clients of pool:%s have "
				 "mapped of %s; give --memory memfd",
				 config->pool, config->memory);
	return 0;
}

static long env_number(const char *name)
{
	const char *text = getenv(name);

	return text ? strtol(text, NULL, 10) : 0;
}

/* Finds a descriptor that the service manager passed, by the protocol of sd_listen_fds(3):
 * descriptors from 3 on, with their names separated by colons. */
int mn_fdstore_find(uint32_t worker, enum mn_fdstore_part part)
{
	const char *at = getenv("LISTEN_FDNAMES");
	long n = env_number("LISTEN_FDS");
	char name[NAME_MAX_LEN];

	if (env_number("LISTEN_PID") != (long)getpid() || !at || n > FDS_MAX)
		return -1;
	name_of(name, worker, part);
	for (int i = 0; i < n; i++) {
		size_t len = strcspn(at, ":");

		if (len == strlen(name) && !memcmp(at, name, len)) {
			(void)fcntl(FIRST_FD + i, F_SETFD, FD_CLOEXEC);
			return FIRST_FD + i;
		}
		at += len + (at[len] == ':');
	}
	return -1;
}

bool mn_fdstore_is_whole(uint32_t workers)
{
	for (uint32_t i = 0; i < workers; i++)
		if (mn_fdstore_find(i, MN_FDSTORE_PAGES) < 0 ||
		    mn_fdstore_find(i, MN_FDSTORE_ARENA) < 0)
			return false;
	return true;
}

int mn_fdstore_store(uint32_t worker, enum mn_fdstore_part part, const struct mn_memory *memory)
{
	char name[NAME_MAX_LEN], lines[128];
	int rc;

	name_of(name, worker, part);
	(void)snprintf(lines, sizeof(lines), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	rc = mn_notify(lines, -1);
	if (rc < 0)
		return rc;
	(void)snprintf(lines, sizeof(lines), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	return mn_notify(lines, memory->fd);
}

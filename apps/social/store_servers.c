/* store_servers - see store_servers.h. */
#include "apps/social/store_servers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/social/role_address.h"

enum { READY_TRIES = 2000, TRY_NS = 5000000 };
static pid_t servers[2];

static _Noreturn void exec_server(const char *const argv[])
{
	int null = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)dup2(null, STDOUT_FILENO);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* Starts a server, and waits until its socket is there. */
static pid_t start_server(const char *dir, const char *role, const char *socket,
			  const char *const argv[])
{
	const struct timespec delay = {.tv_nsec = TRY_NS};
	pid_t pid = fork();
	int err;

	if (pid == 0)
		exec_server(argv);
	for (int i = 0; pid > 0 && access(socket, F_OK) != 0; i++) {
		if (i == READY_TRIES || waitpid(pid, NULL, WNOHANG) == pid)
			app_die("%s does not start: apt install redis-server memcached", argv[0]);
		nanosleep(&delay, NULL);
	}
	err = pid < 0 ? -errno : social_address_write(dir, role, socket);
	if (err < 0)
		app_die("%s: %s", argv[0], strerror(-err));
	return pid;
}

void store_servers_start(const char *dir)
{
	char redis[SOCIAL_PATH_MAX], cache[SOCIAL_PATH_MAX];
	const char *const redis_argv[] = {"redis-server",
					  "--port",
					  "0",
					  "--unixsocket",
					  redis,
					  "--dir",
					  dir,
					  "--save",
					  "",
					  "--appendonly",
					  "yes",
					  "--appendfsync",
					  "everysec",
					  NULL};
	const char *const cache_argv[] = {"memcached", "-s", cache,  "-m",
					  "256",       "-u", "root", NULL};

	(void)snprintf(redis, sizeof(redis), "%s/redis.sock", dir);
	(void)snprintf(cache, sizeof(cache), "%s/memcached.sock", dir);
	servers[0] = start_server(dir, "redis", redis, redis_argv);
	servers[1] = start_server(dir, "memcached", cache, cache_argv);
}

void store_servers_stop(void)
{
	for (unsigned i = 0; i < 2; i++) {
		if (servers[i] <= 0)
			continue;
		kill(servers[i], SIGTERM);
		waitpid(servers[i], NULL, 0);
		servers[i] = 0;
	}
}

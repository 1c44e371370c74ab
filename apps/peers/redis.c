/* redis - requests are SET at a Redis server over its unix socket by the client, and read by GET. A
 * flag in shared memory announces them, which costs less than any command of Redis. Layer:
 * apps/peers. Threads: one per process, and the server's own process. */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/common/spawn.h"
#include "apps/peers/shared_slots.h"

enum { TRIES = 200, TRY_US = 10000 };

/* One process's side. The server's also owns the Redis server and its folder. */
static struct {
	struct peer_slots slots;
	redisContext *redis;
	pid_t pid;
	char folder[64], socket[80];
} end;

static void start_redis(void)
{
	snprintf(end.folder, sizeof(end.folder), "/tmp/lend-peer-redis-XXXXXX");
	if (!mkdtemp(end.folder))
		app_die("cannot make %s: %s", end.folder, strerror(errno));
	snprintf(end.socket, sizeof(end.socket), "%s/socket", end.folder);
	end.pid = fork();
	if (end.pid < 0)
		app_die("cannot start redis-server: %s", strerror(errno));
	if (end.pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	app_unpin();
	if (!freopen("/dev/null", "w", stdout))
		_exit(1);
	execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", end.socket, "--save",
	       "", "--dir", end.folder, (char *)NULL);
	_exit(1);
}

static redisContext *connect_redis(const char *path)
{
	for (int i = 0; i < TRIES; i++) {
		redisContext *redis = redisConnectUnix(path);

		if (redis && !redis->err)
			return redis;
		redisFree(redis);
		usleep(TRY_US);
	}
	app_die("redis-server does not answer: install it (scripts/deps.sh peers)");
}

void *peer_server_open(const struct peer_job *job, struct peer_pipe *channel)
{
	if (peer_is_echo(job))
		app_bad("redis passes requests only: --reply 8");
	start_redis();
	end.redis = connect_redis(end.socket);
	peer_send_text(channel, end.socket, strlen(end.socket) + 1);
	peer_slots_make(&end.slots, job, channel, 0);
	return &end;
}

static redisReply *check_reply(redisReply *reply, const char *what)
{
	if (!reply || reply->type == REDIS_REPLY_ERROR)
		app_die("redis %s: %s", what, reply ? reply->str : end.redis->errstr);
	return reply;
}

void peer_server_turn(void *server)
{
	struct peer_slots *s = &end.slots;

	(void)server;
	for (unsigned i = 0; i < s->job->window; i++) {
		redisReply *got;
		struct iovec part;

		if (!peer_slots_is_asked(s, i))
			continue;
		got = check_reply(redisCommand(end.redis, "GET r%u", i), "GET");
		part = (struct iovec){got->str, got->len};
		peer_serve(s->job, &part, 1, s->shared->slot[i].sum);
		freeReplyObject(got);
		peer_slots_answer(s, i);
	}
}

void peer_server_close(void *server)
{
	(void)server;
	redisFree(end.redis);
	kill(end.pid, SIGTERM);
	while (waitpid(end.pid, NULL, 0) < 0 && errno == EINTR)
		;
	unlink(end.socket);
	rmdir(end.folder);
	peer_slots_unmap(&end.slots);
}

void *peer_client_open(const struct peer_job *job, struct peer_pipe *channel)
{
	char path[PEER_ADDRESS_MAX];

	peer_receive_text(channel, path, sizeof(path));
	end.redis = connect_redis(path);
	peer_slots_map(&end.slots, job, channel, 0);
	return &end;
}

int peer_client_start(void *client, unsigned slot, const void *request)
{
	size_t len = end.slots.job->request;

	(void)client;
	freeReplyObject(
	    check_reply(redisCommand(end.redis, "SET r%u %b", slot, request, len), "SET"));
	peer_slots_ask(&end.slots, slot);
	return 0;
}

void peer_client_turn(void *client)
{
	(void)client;
	peer_slots_end_answered(&end.slots);
}

void peer_client_close(void *client)
{
	(void)client;
	redisFree(end.redis);
	peer_slots_unmap(&end.slots);
}

const struct peer peer_this = {"redis", {{.name = "unix"}}, false};

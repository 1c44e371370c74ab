/* Goal: a process uses one incarnation number towards one server, and different ones towards other
 * servers, its own clients, and after a fork. Method: names that differ little, and a fork. Covers:
 * src/rpc/session_proof.c */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rpc/endpoint.h"

enum { NAME = 16 };

static void name_of(const char *server, uint8_t name[NAME])
{
	uint8_t key[16];

	lend_handshake_process_key(key);
	lend_handshake_name(key, server, name);
}

Test(session_proof, name__by_server__own_and_constant)
{
	static const char *const server[] = {NULL, "", "s", "udp:a:1", "udp:a:10", "shm:a"};
	enum { N = sizeof(server) / sizeof(server[0]) };
	uint8_t name[N][NAME], again[NAME];

	for (int i = 0; i < N; i++)
		name_of(server[i], name[i]);
	for (int i = 0; i < N; i++) {
		name_of(server[i], again);
		cr_expect_eq(memcmp(again, name[i], NAME), 0, "%d", i);
		for (int k = 0; k < i; k++)
			cr_expect_neq(memcmp(name[i], name[k], NAME), 0, "%d and %d", i, k);
	}
}

Test(session_proof, name__of_a_fork__another)
{
	uint8_t ours[NAME], theirs[NAME];
	int fds[2], status;
	pid_t pid;

	name_of("udp:a:1", ours);
	cr_assert_eq(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		name_of("udp:a:1", theirs);
		_exit(write(fds[1], theirs, NAME) != NAME);
	}
	close(fds[1]);
	cr_assert_eq(read(fds[0], theirs, NAME), NAME);
	close(fds[0]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_neq(memcmp(ours, theirs, NAME), 0);
	name_of("udp:a:1", theirs);
	cr_expect_eq(memcmp(ours, theirs, NAME), 0, "the fork changed its parent");
}

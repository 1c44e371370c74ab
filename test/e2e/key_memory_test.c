/* Goal: a key is in no memory but the one for secrets, which no core dump and no fork's child has,
 * and nowhere after it was removed; a reload takes the file as it is. Method: searches all memory
 * of the process for the key, whose bytes the test keeps inverted. Covers: src/rpc/keys.c,
 * src/rpc/keygen.c, src/rpc/shake.c, src/sys/secret_memory.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lend/rpc.h"
#include "rpc/keyfile.h"
#include "rpc/keys.h"
#include "wire/pkt.h"

enum { KEY = LEND_KEY, PAGE = 4096 };

static char path[128];

/* One key: its bytes and its hex digits, inverted, and its id. */
struct sought {
	uint8_t inverted[KEY], digits[2 * KEY];
	uint64_t id;
};

static void name_file(void)
{
	snprintf(path, sizeof(path), "/tmp/lend.key_memory.%d/keys", (int)getpid());
	cr_assert_eq(setenv("LEND_KEYS", path, 1), 0);
	cr_assert_eq(unsetenv("LEND_SECRET"), 0);
}

static void remove_file(void)
{
	unlink(path);
	*strrchr(path, '/') = 0;
	rmdir(path);
}

/* Makes a file with a key and reads it back, without a copy of it anywhere. */
static struct sought make_key(void)
{
	struct lend_keyline line;
	struct sought s;
	char made[128], *text;

	cr_assert_eq(lend_keygen(path, made, sizeof(made)), 0, "%s", lend_why());
	cr_assert_eq(lend_keyfile_read(path, &text), 0);
	cr_assert_null(lend_keyfile_parse(text, strcspn(text, "\n"), &line));
	for (int i = 0; i < KEY; i++)
		s.inverted[i] = (uint8_t)~line.key[i];
	s.id = line.id;
	for (int i = 0; i < 2 * KEY; i++)
		s.digits[i] = (uint8_t)~strrchr(text, ' ')[1 + i];
	explicit_bzero(text, LEND_KEYFILE_MAX);
	explicit_bzero(&line, sizeof(line));
	free(text);
	return s;
}

static bool is_inverse(const uint8_t *at, const uint8_t *inverted, size_t len)
{
	size_t same = 0;

	while (same < len && (at[same] ^ inverted[same]) == 0xff)
		same++;
	return same == len;
}

static unsigned count_in(const uint8_t *at, size_t len, const struct sought *s)
{
	unsigned found = 0;

	for (size_t i = 0; i + 2 * KEY <= len; i++)
		found +=
		    is_inverse(at + i, s->inverted, KEY) + is_inverse(at + i, s->digits, 2 * KEY);
	return found;
}

/* Searches [begin, end) of this process; a page overlaps the next one. */
static unsigned search_range(int mem, unsigned long begin, unsigned long end,
			     const struct sought *s)
{
	static uint8_t page[16 * PAGE + 2 * KEY - 1];
	unsigned found = 0;

	for (unsigned long at = begin; at < end; at += 16 * PAGE) {
		ssize_t n = pread(mem, page, sizeof(page), (off_t)at);

		if (n > 0 && !(at <= (uintptr_t)page && (uintptr_t)page < at + sizeof(page)))
			found += count_in(page, (size_t)n, s);
		explicit_bzero(page, sizeof(page));
	}
	return found;
}

struct places {
	unsigned kept,
	    elsewhere; /* in memory that is neither dumped nor inherited; in other memory */
};

/* Searches all memory, by /proc/self/smaps, which has the flags of each range behind it. */
static struct places search_all(const struct sought *s)
{
	static char maps[4 << 20];
	struct places p = {0};
	int fd = open("/proc/self/smaps", O_RDONLY), mem = open("/proc/self/mem", O_RDONLY);
	unsigned long begin = 0, end = 0;
	size_t len = 0;
	ssize_t n;

#ifdef __SANITIZE_ADDRESS__
	cr_skip("the sanitizer keeps memory that was freed, and has terabytes of its own");
#endif
	cr_assert(fd >= 0 && mem >= 0);
	while ((n = read(fd, maps + len, sizeof(maps) - 1 - len)) > 0)
		len += (size_t)n;
	maps[len] = 0;
	for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned long from, to;
		char rights[5];

		if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3) {
			begin = rights[0] == 'r' && rights[1] == 'w' ? from : 0;
			end = begin ? to : 0;
		} else if (!strncmp(line, "VmFlags:", 8) && end) {
			bool safe = strstr(line, " dd") && strstr(line, " wf");
			unsigned found = search_range(mem, begin, end, s);

			*(safe ? &p.kept : &p.elsewhere) += found;
		}
	}
	close(fd);
	close(mem);
	return p;
}

static void reload_file(void)
{
	cr_assert_eq(lend_reload_keys(), 0, "%s", lend_why());
}

Test(key_memory, key__read__is_kept_apart_and_wiped, .init = name_file, .fini = remove_file)
{
	struct sought s = make_key();
	uint8_t psk[KEY];
	uint64_t id;
	struct places p;
	int status;
	pid_t pid;

	cr_assert_eq(lend_keys_first(NULL, true, &id), 0, "%s", lend_why());
	cr_expect_eq(id, s.id);
	p = search_all(&s);
	cr_expect_eq(p.kept, 1, "%u", p.kept);
	cr_expect_eq(p.elsewhere, 0, "%u", p.elsewhere);
	cr_expect(lend_keys_find(id, psk));
	explicit_bzero(psk, sizeof(psk));
	pid = fork();
	if (pid == 0) {
		p = search_all(&s);
		_exit(p.kept || p.elsewhere || lend_keys_find(s.id, psk));
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0, "a fork's child has the key");
	unlink(path);
	(void)make_key();
	reload_file();
	p = search_all(&s);
	cr_expect_eq(p.kept + p.elsewhere, 0, "removed, but in memory");
	cr_expect_not(lend_keys_find(s.id, psk));
}

/* The session's handshake needs the key until it ends: here the server never answers. The stack is
 * not looked at: the loader saves vector registers there. */
Test(key_memory, key__in_a_handshake__is_kept_apart, .init = name_file, .fini = remove_file)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(to);
	int silent = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct lend_config config = LEND_CONFIG_INIT;
	char connect[sizeof(struct lend_pkt_connect)], address[32];
	struct sought s = make_key();
	struct lend_ep *ep;
	struct places p;
	lend_session session;

	cr_assert_eq(setenv("LEND_LEVEL", "encrypt", 1), 0);
	cr_assert(silent >= 0 && bind(silent, (void *)&to, len) == 0 &&
		  getsockname(silent, (void *)&to, &len) == 0);
	snprintf(address, sizeof(address), "udp:127.0.0.1:%u", ntohs(to.sin_port));
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_connect(ep, address, &session), 0, "%s", lend_why());
	while (recv(silent, connect, sizeof(connect), MSG_DONTWAIT) < 0)
		lend_poll(ep);
	p = search_all(&s);
	cr_expect_eq(p.kept, 2, "%u", p.kept);
	lend_close(ep);
	p = search_all(&s);
	cr_expect_eq(p.kept, 1, "%u", p.kept);
	close(silent);
}

/* Rotation: a new key is appended, then moved to the front, then the old one is removed. */
static void write_lines(const char *mode, const char *text)
{
	FILE *file = fopen(path, mode);

	cr_assert(file);
	fputs(text, file);
	fclose(file);
	cr_assert_eq(chmod(path, 0600), 0);
}

static char *read_text(void)
{
	char *text;

	cr_assert_eq(lend_keyfile_read(path, &text), 0);
	return text;
}

Test(key_memory, reload__rotation__in_steps, .init = name_file, .fini = remove_file)
{
	char both[1024], *old_line, *new_line;
	struct sought old = make_key(), new;
	uint32_t generation = lend_keys_generation();
	uint8_t psk[KEY];
	uint64_t id;

	old_line = read_text();
	unlink(path);
	new = make_key();
	new_line = read_text();
	write_lines("w", old_line);
	cr_assert_eq(lend_keys_first(NULL, true, &id), 0);
	cr_expect_eq(id, old.id);
	cr_expect_not(lend_keys_find(new.id, psk));
	write_lines("a", new_line);
	reload_file();
	cr_expect_neq(lend_keys_generation(), generation);
	cr_assert_eq(lend_keys_first(NULL, true, &id), 0);
	cr_expect_eq(id, old.id, "the first one connects");
	cr_expect(lend_keys_find(new.id, psk) && lend_keys_find(old.id, psk), "both are accepted");
	snprintf(both, sizeof(both), "%s%s", new_line, old_line);
	write_lines("w", both);
	reload_file();
	cr_assert_eq(lend_keys_first(NULL, true, &id), 0);
	cr_expect_eq(id, new.id);
	write_lines("w", new_line);
	reload_file();
	cr_expect_not(lend_keys_find(old.id, psk));
	write_lines("w", "nonsense\n");
	cr_expect_eq(lend_reload_keys(), -EINVAL);
	cr_expect(lend_keys_find(new.id, psk), "a faulty file changes nothing");
	free(old_line);
	free(new_line);
}

/* A secret of the program is not the file's: a reload keeps it. */
Test(key_memory, reload__secret_of_the_program__stays, .init = name_file, .fini = remove_file)
{
	char key[65];
	uint8_t psk[KEY];

	(void)make_key();
	memset(key, '7', 64);
	key[64] = 0;
	cr_assert_eq(lend_accept_secret(key), 0);
	reload_file();
	cr_expect(lend_keys_find(lend_keys_id(key), psk));
}

Test(key_memory, file__tenant_static_and_server__are_found, .init = name_file, .fini = remove_file)
{
	static const char lines[] =
	    "static 77076d0a7318a57d3c16c17251b26645df4c2ee1e5e2cd3b2a3c5d1f2a8b6c4d\n"
	    "server udp:there:1 8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a\n";
	struct lend_kex_keys keys = {0}, other = {0};
	struct sought s = make_key();
	char line[512], tenant[LEND_TENANT_MAX], *text = read_text();
	uint64_t id;

	snprintf(line, sizeof(line), "%.*s tenant blue\n", (int)strcspn(text, "\n"), text);
	free(text);
	write_lines("w", line);
	write_lines("a", lines);
	cr_assert_eq(lend_keys_first(NULL, true, &id), 0, "%s", lend_why());
	cr_expect(lend_keys_tenant(s.id, tenant));
	cr_expect_str_eq(tenant, "blue");
	cr_expect_not(lend_keys_tenant(1, tenant));
	cr_expect(lend_keys_exchange(s.id, &keys));
	cr_expect_not(lend_keys_exchange(s.id + 1, &other));
	cr_expect_neq(memcmp(keys.mac_key, other.mac_key, sizeof(keys.mac_key)), 0);
	cr_expect(lend_keys_own(&keys));
	cr_expect_eq(lend_keys_server("udp:there:2"), 0);
	cr_expect_neq(lend_keys_server("udp:there:1"), 0);
	cr_expect(lend_keys_of_server(lend_keys_server("udp:there:1"), &keys));
	cr_expect_eq(keys.server[0], 0x85);
}

/* Several processes make the usual file at the same time: all of them have the same key. */
Test(key_memory, make__several_processes__one_key, .init = name_file, .fini = remove_file)
{
	enum { N = 8 };
	uint64_t id[N], seen[N];
	int fds[2];
	char home[64];

	snprintf(home, sizeof(home), "/tmp/lend.key_home.%d", (int)getpid());
	cr_assert_eq(mkdir(home, 0700), 0);
	cr_assert_eq(unsetenv("LEND_KEYS"), 0);
	cr_assert_eq(unsetenv("HOME"), 0);
	cr_assert_eq(setenv("XDG_CONFIG_HOME", home, 1), 0);
	cr_assert_eq(pipe(fds), 0);
	for (int i = 0; i < N; i++)
		if (fork() == 0) {
			id[0] = 0;
			_exit(lend_keys_make(&id[0]) != 0 ||
			      write(fds[1], &id[0], sizeof(id[0])) != sizeof(id[0]));
		}
	for (int i = 0; i < N; i++) {
		int status;

		cr_expect(wait(&status) > 0 && status == 0);
		cr_assert_eq(read(fds[0], &seen[i], sizeof(seen[i])), sizeof(seen[i]));
		cr_expect_eq(seen[i], seen[0]);
		cr_expect_neq(seen[i], 0);
	}
	snprintf(path, sizeof(path), "%s/lend/keys", home);
	cr_expect_eq(access(path, F_OK), 0);
	unlink(path);
	snprintf(path, sizeof(path), "%s/lend", home);
	rmdir(path);
	rmdir(home);
	snprintf(path, sizeof(path), "/tmp/lend.none/keys");
}

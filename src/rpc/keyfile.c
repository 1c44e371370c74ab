#include "rpc/keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/last_error.h"

enum { WORDS_MAX = 5 };

struct word {
	const char *at;
	size_t len;
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_hex(const char *text, size_t len, uint8_t *out, size_t n)
{
	if (len != 2 * n)
		return false;
	for (size_t i = 0; i < n; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

bool lend_keyfile_hex(const char *text, size_t len, uint8_t key[LEND_KEY])
{
	return read_hex(text, len, key, LEND_KEY);
}

/* Splits a line into words. Returns their number; WORDS_MAX + 1: there are more. */
static size_t split_words(const char *text, size_t len, struct word word[WORDS_MAX])
{
	size_t n = 0, i = 0;

	for (;;) {
		while (i < len && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r'))
			i++;
		if (i == len)
			return n;
		if (n == WORDS_MAX)
			return n + 1;
		word[n].at = text + i;
		while (i < len && text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
			i++;
		word[n].len = (size_t)(text + i - word[n].at);
		n++;
	}
}

static bool is_word(const struct word *word, const char *text)
{
	return word->len == strlen(text) && !memcmp(word->at, text, word->len);
}

static bool keep_word(const struct word *word, struct lend_keyline *line)
{
	if (word->len >= sizeof(line->word))
		return false;
	memcpy(line->word, word->at, word->len);
	line->word[word->len] = 0;
	return true;
}

static const char *parse_psk(const struct word *word, size_t n, struct lend_keyline *line)
{
	uint8_t id[8];

	line->kind = LEND_KEYLINE_PSK;
	if (n != 3 && (n != 5 || !is_word(&word[3], "tenant") || !keep_word(&word[4], line)))
		return "give \"psk ID KEY\" or \"psk ID KEY tenant NAME\"";
	if (!read_hex(word[1].at, word[1].len, id, sizeof(id)))
		return "the id is not 16 hex digits";
	memcpy(&line->id, id, sizeof(id));
	return lend_keyfile_hex(word[2].at, word[2].len, line->key)
		   ? NULL
		   : "the key is not 64 hex digits";
}

const char *lend_keyfile_parse(const char *text, size_t len, struct lend_keyline *line)
{
	struct word word[WORDS_MAX];
	size_t n = split_words(text, len, word);

	memset(line, 0, sizeof(*line));
	if (n == 0 || word[0].at[0] == '#')
		return NULL;
	if (is_word(&word[0], "psk"))
		return parse_psk(word, n, line);
	if (is_word(&word[0], "static") && n == 2 &&
	    lend_keyfile_hex(word[1].at, word[1].len, line->key)) {
		line->kind = LEND_KEYLINE_STATIC;
		return NULL;
	}
	if (is_word(&word[0], "server") && n == 3 && keep_word(&word[1], line) &&
	    lend_keyfile_hex(word[2].at, word[2].len, line->key)) {
		line->kind = LEND_KEYLINE_SERVER;
		return NULL;
	}
	return "give psk ID KEY, static KEY or server ADDRESS KEY; a KEY is 64 hex digits";
}

int lend_keyfile_check(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return lend_fail(EINVAL, "%s: not a regular file", path);
	if (st.st_uid != geteuid())
		return lend_fail(EPERM,
				 "%s: belongs to user %u; a key file must be your own: chown %u %s",
				 path, (unsigned)st.st_uid, (unsigned)geteuid(), path);
	if (st.st_mode & 077)
		return lend_fail(EPERM, "%s: other users can read it: chmod 600 %s", path, path);
	return 0;
}

static int check_size(int fd, const char *path)
{
	struct stat st;

	return fstat(fd, &st) < 0 || st.st_size > LEND_KEYFILE_MAX
		   ? lend_fail(EFBIG, "%s: more than 64 KiB: not a key file", path)
		   : 0;
}

static int read_all(int fd, char *text)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, text + len, LEND_KEYFILE_MAX - len)) > 0)
		len += (size_t)n;
	text[len] = 0;
	return n < 0 ? -errno : 0;
}

int lend_keyfile_read(const char *path, char **text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT
				       : lend_fail(errno,
						   "%s: %s; set HOME, or LEND_KEYS to a file of "
						   "this user's",
						   path, strerror(errno));
	rc = lend_keyfile_check(fd, path);
	if (rc == 0)
		rc = check_size(fd, path);
	*text = rc < 0 ? NULL : malloc(LEND_KEYFILE_MAX + 1);
	if (rc == 0 && !*text)
		rc = lend_fail(ENOMEM, "%s: no memory to read it", path);
	if (rc == 0 && read_all(fd, *text) < 0) {
		free(*text);
		rc = lend_fail(EIO, "%s: cannot be read", path);
	}
	close(fd);
	return rc;
}

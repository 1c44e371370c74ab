#include "cn/pool/dirty_pages.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/uffd.h"
#include "util/bits.h"

/* Pages are watched in blocks of BLOCK bytes: each block gets a mapping of its own, and a process
 * can have some 65,000. */
enum { PAGE = 4096, CHUNK = 512, BLOCK = 2 << 20 };
#define ENTRY_FILE  (UINT64_C(1) << 61)
#define ENTRY_THERE (UINT64_C(3) << 62) /* bits of a pagemap entry: present, swapped */

static bool in_hole(const struct cn_dirty_pages *m, uint64_t at)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (at >= m->hole[i].first && at < m->hole[i].end)
			return true;
	return false;
}

static bool is_zero(const char *page)
{
	return page[0] == 0 && memcmp(page, page + 1, PAGE - 1) == 0;
}

static bool was_sent(const struct cn_dirty_pages *m, uint64_t at)
{
	return m->all_sent || (m->sent && m->sent[at / PAGE / 64] & UINT64_C(1) << at / PAGE % 64);
}

static bool is_stored(const struct cn_dirty_pages *m, uint64_t at, uint64_t entry)
{
	if (!(entry & ENTRY_THERE) || entry & (ENTRY_FILE | LEND_UFFD_CLEAN))
		return false;
	return !in_hole(m, at) || was_sent(m, at) || !is_zero(m->map + at);
}

uint64_t cn_dirty_skip(struct cn_dirty_pages *m, uint64_t at, uint64_t end, bool stored)
{
	uint64_t entry[CHUNK];

	while (at < end) {
		size_t n = lend_min_u64(CHUNK, (end - at) / PAGE);
		off_t from = (off_t)(((uintptr_t)m->map + at) / PAGE * sizeof(entry[0]));
		ssize_t got = pread(m->pagemap, entry, n * sizeof(entry[0]), from);

		if (got != (ssize_t)(n * sizeof(entry[0]))) /* unreadable: all count as dirty */
			return stored ? end : at;
		for (size_t i = 0; i < n; i++, at += PAGE)
			if (is_stored(m, at, entry[i]) != stored)
				return at;
	}
	return end;
}

static void note_holes(struct cn_dirty_pages *m, uint64_t at, uint64_t end)
{
	for (; m->n && at < end; at += PAGE) {
		if (!in_hole(m, at))
			continue;
		if (!m->sent)
			m->sent = calloc((m->len / PAGE + 63) / 64, sizeof(*m->sent));
		m->all_sent |= !m->sent;
		if (m->sent)
			m->sent[at / PAGE / 64] |= UINT64_C(1) << at / PAGE % 64;
	}
}

void cn_dirty_take(struct cn_dirty_pages *m, uint64_t at, uint64_t end)
{
	uint64_t first = at & ~(uint64_t)(BLOCK - 1);
	uint64_t last = lend_min_u64(m->len, lend_align_up(end, BLOCK));

	note_holes(m, at, end);
	if (at == end || m->fd < 0 || m->refused || lend_uffd_mark(m->fd, m->map + at, end - at))
		return;
	m->watched = true;
	m->refused = !lend_uffd_watch(m->fd, m->map + first, last - first) ||
		     !lend_uffd_mark(m->fd, m->map + at, end - at);
}

void cn_dirty_untake(struct cn_dirty_pages *m, uint64_t at, uint64_t end)
{
	if (m->watched)
		lend_uffd_unprotect(m->fd, m->map + at, end - at);
}

void cn_dirty_close(struct cn_dirty_pages *m)
{
	if (m->watched)
		lend_uffd_unwatch(m->fd, m->map, m->len);
	free(m->sent);
}

/* readahead - see readahead.h. */
#include "cn/paging/readahead.h"

#include "util/bits.h"

struct cn_stream *cn_readahead_touch(struct cn_readahead *ahead, uint64_t page)
{
	struct cn_stream *quiet = &ahead->stream[0];

	ahead->touches++;
	for (int i = 0; i < CN_READAHEAD_STREAMS; i++) {
		struct cn_stream *s = &ahead->stream[i];

		if (s->window && s->next == page) {
			s->touch = ahead->touches;
			s->window = lend_min_u32(lend_max_u32(s->window * 2, CN_READAHEAD_MIN),
						 CN_READAHEAD_MAX);
			return s;
		}
		if (ahead->touches - s->touch > ahead->touches - quiet->touch)
			quiet = s;
	}
	*quiet = (struct cn_stream){.next = page + 1, .window = 1, .touch = ahead->touches};
	return quiet;
}

/* urgent - a second socket at the same address for urgent datagrams, while long datagrams come too.
 *
 * A socket delivers its datagrams in FIFO order, so an urgent one would wait behind all bytes that
 * its peer was granted. Sockets of one address and port form a group (SO_REUSEPORT), and a filter
 * selects one of them for each datagram, here by its class selector. Polling a second socket costs
 * a system call per turn, so it is used only while urgent and long datagrams both come. After that
 * the filter delivers everything to the first socket again, and the second is polled a while longer
 * for the datagrams that it still holds.
 *
 * A connected socket gets all datagrams of its peer, whatever the filter selects, so there is none
 * during that time. Layer: io. One thread's.
 */
#include "io/udp/udp.h"

#include <linux/filter.h>
#include <string.h>

#include "util/traffic_class.h"

enum {
	LONG = 4096,      /* bytes of a message that urgent ones should overtake */
	MEMORY = 1 << 17, /* receives, tens of milliseconds of polling, for which a kind of datagram
			     is expected again after it came */
	EMPTYING =
	    1 << 10 /* receives that find all that was delivered here before the filter changed */
};

/* Classic BPF: a class selector above the default's goes to the group member that the last line
 * but one returns. */
static const struct sock_filter by_class[] = {
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)SKF_NET_OFF),
    BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 6, 2, 0),
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)SKF_NET_OFF + 1),
    BPF_JUMP(BPF_JMP | BPF_JA, 3, 0, 0),
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, (uint32_t)SKF_NET_OFF),
    BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff),
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, LEND_TOS_URGENT, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, 1),
    BPF_STMT(BPF_RET | BPF_K, 0),
};
enum { LINES = sizeof(by_class) / sizeof(by_class[0]) };

static bool sort_by_class(const struct lend_udp_urgent *f)
{
	struct sock_filter code[LINES];
	struct sock_fprog program = {.len = LINES, .filter = code};

	memcpy(code, by_class, sizeof(code));
	code[LINES - 2].k = f->member;
	return setsockopt(f->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) ==
	       0;
}

/* Opens the second socket. An older connected socket may be a member of the group, before it. */
static void open_twin(struct io_udp *u)
{
	int line = u->connected.fd;

	u->urgent.fd = lend_udp_socket_twin(u->fd, line);
	u->urgent.member = line != u->fd && lend_udp_socket_to_first(line) ? 2 : 1;
}

/* Starts to use the urgent socket. The connected socket must stop first: it gets all datagrams
 * of its peer. */
static void begin_sorting(struct io_udp *u)
{
	lend_udp_connected_stop(u);
	if (u->urgent.fd < 0)
		open_twin(u);
	u->urgent.sorted = u->urgent.fd >= 0 && sort_by_class(&u->urgent);
	u->urgent.refused = !u->urgent.sorted;
	lend_udp_epoll_reset(u);
}

static void end_sorting(struct io_udp *u)
{
	u->urgent.sorted = !lend_udp_socket_to_first(u->urgent.fd);
	u->urgent.emptying = EMPTYING;
}

void lend_udp_urgent_note(struct io_udp *u, uint8_t tos, uint32_t len)
{
	if (tos >= LEND_TOS_URGENT)
		u->urgent.urgent = MEMORY;
	if (len < LONG)
		return;
	u->urgent.lengthy = MEMORY;
	lend_udp_connected_note_long(u);
}

void lend_udp_urgent_pending(struct io_udp *u)
{
	u->urgent.emptying = EMPTYING;
}

bool lend_udp_urgent_must_poll(struct io_udp *u)
{
	struct lend_udp_urgent *f = &u->urgent;

	f->urgent -= f->urgent > 0;
	f->lengthy -= f->lengthy > 0;
	f->emptying -= f->emptying > 0;
	if (!f->sorted && f->urgent > 0 && f->lengthy > 0 && !f->refused)
		begin_sorting(u);
	else if (f->sorted && (f->urgent == 0 || f->lengthy == 0))
		end_sorting(u);
	return f->sorted || f->emptying > 0;
}

/* The upstream of the bench: an endpoint that costs next to nothing, in OpenAI's dialect (chat/completions) and, for
 * paths that end in /messages, in Anthropic's.
 *
 *     gcc -O2 -o mock mock.c && ./mock PORT UPSTREAM_KEY UPSTREAM_MODEL
 *
 * One thread, epoll, HTTP/1.1 keep-alive. POST answers a completion of about 550 bytes, or with "stream":true as many
 * chunks as "max_tokens" says (100), one write() each, the running streams taking turns; with "seed":MS in the body
 * there are MS milliseconds before each chunk (every gateway passes these two members on). 401 unless the upstream key
 * was sent, 404 unless "model" is exactly the upstream model: a 200 proves that whoever stands in between swapped the
 * key and rewrote the model. GET answers a model listing.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_STREAMS = 65536, FIRST_BUFFER = 16384 };

typedef struct Conn {
    int fd;
    char *in;                   /* bytes of requests not yet answered */
    long in_len, in_cap;
    char *out;                  /* bytes the socket did not take yet */
    size_t out_len, out_pos, out_cap;
    int streaming, chunks, sent, listed, dialect;
    uint64_t interval, due;     /* ns; a paced stream stands in the queue below */
    struct Conn *before, *after;
    int queued;
} Conn;

static int epoll_fd;
static const char *key, *model;
static Conn *streams[MAX_STREAMS];
static int stream_count;
/* Paced streams by due time. A stream that had its turn goes to the end, which keeps the order as long as all of them
 * have the same interval; with mixed ones a chunk can be late. */
static Conn *first, *final;

enum { CHAT, MESSAGES, DIALECTS };

static char plain[DIALECTS][2048], begin[DIALECTS][1024], chunk[DIALECTS][512], last[DIALECTS][1024], listing[1024];
static int plain_len[DIALECTS], begin_len[DIALECTS], chunk_len[DIALECTS], chunk_digits[DIALECTS], last_len[DIALECTS];
static int listing_len;
static const char *STREAM_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                                 "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";

static int whole(char *to, size_t room, int status, const char *body) {
    const char *form = "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s";
    return snprintf(to, room, form, status, strlen(body), body);
}

static void build_stream(int dialect, const char *opening, const char *token, const char *ending) {
    begin_len[dialect] = snprintf(begin[dialect], sizeof begin[dialect], "%s", STREAM_HEAD);
    if (*opening)
        begin_len[dialect] += snprintf(begin[dialect] + begin_len[dialect], sizeof begin[dialect] - begin_len[dialect],
                                       "%zx\r\n%s\r\n", strlen(opening), opening);
    chunk_len[dialect] = snprintf(chunk[dialect], sizeof chunk[dialect], "%zx\r\n%s\r\n", strlen(token), token);
    chunk_digits[dialect] = (int)(strstr(chunk[dialect], "tok0000") - chunk[dialect]) + 3;
    last_len[dialect] =
        snprintf(last[dialect], sizeof last[dialect], "%zx\r\n%s\r\n0\r\n\r\n", strlen(ending), ending);
}

#define ANSWER                                                                                                       \
    "Hello from the mock upstream. This sentence is here so that the whole answer is about as long as a short reply " \
    "of a chat model is on the wire, headers not counted. mock-answer-end"

static void build(void) {
    char body[1500], token[512], ending[512];
    snprintf(body, sizeof body,
             "{\"id\":\"chatcmpl-mock0000000000000000000001\",\"object\":\"chat.completion\",\"created\":1700000000,"
             "\"model\":\"%s\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"" ANSWER
             "\",\"refusal\":null},\"logprobs\":null,"
             "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":40,"
             "\"total_tokens\":52},\"system_fingerprint\":\"fp_mock\"}",
             model);
    plain_len[CHAT] = whole(plain[CHAT], sizeof plain[CHAT], 200, body);
    snprintf(body, sizeof body,
             "{\"id\":\"msg_mock0000000000000000000001\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"%s\","
             "\"content\":[{\"type\":\"text\",\"text\":\"" ANSWER "\"}],\"stop_reason\":\"end_turn\","
             "\"stop_sequence\":null,\"usage\":{\"input_tokens\":12,\"output_tokens\":40}}",
             model);
    plain_len[MESSAGES] = whole(plain[MESSAGES], sizeof plain[MESSAGES], 200, body);
    snprintf(body, sizeof body,
             "{\"object\":\"list\",\"data\":[{\"id\":\"%s\",\"object\":\"model\",\"created\":1700000000,"
             "\"owned_by\":\"mock\"}]}",
             model);
    listing_len = whole(listing, sizeof listing, 200, body);
    snprintf(token, sizeof token,
             "data: {\"id\":\"chatcmpl-mock0000000000000000000001\",\"object\":\"chat.completion.chunk\","
             "\"created\":1700000000,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
             "\"tok0000 \"},\"finish_reason\":null}]}\n\n",
             model);
    snprintf(ending, sizeof ending,
             "data: {\"id\":\"chatcmpl-mock0000000000000000000001\",\"object\":\"chat.completion.chunk\","
             "\"created\":1700000000,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{},"
             "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
             model);
    build_stream(CHAT, "", token, ending);
    snprintf(body, sizeof body,
             "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_mock01\",\"type\":"
             "\"message\",\"role\":\"assistant\",\"model\":\"%s\",\"content\":[],\"stop_reason\":null,"
             "\"stop_sequence\":null,\"usage\":{\"input_tokens\":12,\"output_tokens\":1}}}\n\n"
             "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
             "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
             model);
    build_stream(MESSAGES, body,
                 "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
                 "\"delta\":{\"type\":\"text_delta\",\"text\":\"tok0000 \"}}\n\n",
                 "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
                 "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\","
                 "\"stop_sequence\":null},\"usage\":{\"output_tokens\":100}}\n\n"
                 "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

static void watch(Conn *c, int writable) {
    struct epoll_event e = {.events = EPOLLIN | (writable ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

static void unlist(Conn *c) {
    if (!c->listed) return;
    for (int i = 0; i < stream_count; i++)
        if (streams[i] == c) {
            streams[i] = streams[--stream_count];
            break;
        }
    c->listed = 0;
}

static void enqueue(Conn *c) {
    c->before = final;
    c->after = NULL;
    if (final) final->after = c;
    else first = c;
    final = c;
    c->queued = 1;
}

static void dequeue(Conn *c) {
    if (!c->queued) return;
    if (c->before) c->before->after = c->after;
    else first = c->after;
    if (c->after) c->after->before = c->before;
    else final = c->before;
    c->queued = 0;
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void drop(Conn *c) {
    unlist(c);
    dequeue(c);
    close(c->fd);
    free(c->in);
    free(c->out);
    free(c);
}

/* -1: the peer is gone. */
static int emit(Conn *c, const char *data, size_t n) {
    if (c->out_len == c->out_pos) {
        c->out_len = c->out_pos = 0;
        ssize_t w = send(c->fd, data, n, MSG_NOSIGNAL);
        if (w < 0) {
            if (errno != EAGAIN) return -1;
            w = 0;
        }
        if ((size_t)w == n) return 0;
        data += w;
        n -= w;
    }
    if (c->out_len + n > c->out_cap) c->out = realloc(c->out, c->out_cap = (c->out_len + n) * 2);
    memcpy(c->out + c->out_len, data, n);
    c->out_len += n;
    watch(c, 1);
    return 0;
}

static int flush(Conn *c) {
    while (c->out_pos < c->out_len) {
        ssize_t w = send(c->fd, c->out + c->out_pos, c->out_len - c->out_pos, MSG_NOSIGNAL);
        if (w < 0) return errno == EAGAIN ? 0 : -1;
        c->out_pos += w;
    }
    c->out_len = c->out_pos = 0;
    watch(c, 0);
    return 0;
}

/* Where the value of a JSON member begins; NULL when the body has none of that name. */
static const char *member(const char *body, const char *quoted_name) {
    const char *p = strstr(body, quoted_name);
    if (!p) return NULL;
    p += strlen(quoted_name);
    while (*p == ' ' || *p == ':') p++;
    return p;
}

static int refuse(Conn *c, int status, const char *message) {
    char body[256], out[512];
    snprintf(body, sizeof body, "{\"error\":{\"message\":\"%s\",\"type\":\"mock\",\"code\":null}}", message);
    return emit(c, out, whole(out, sizeof out, status, body));
}

static int ask(Conn *c, const char *body, int authorised, int dialect) {
    char wanted[128];
    snprintf(wanted, sizeof wanted, "\"%s\"", model);
    const char *named = member(body, "\"model\""), *stream = member(body, "\"stream\"");
    if (!authorised) return refuse(c, 401, "bad upstream key");
    if (!named || strncmp(named, wanted, strlen(wanted))) return refuse(c, 404, "model was not rewritten");
    if (!stream || strncmp(stream, "true", 4)) return emit(c, plain[dialect], plain_len[dialect]);
    const char *count = member(body, "\"max_tokens\""), *pace = member(body, "\"seed\"");
    c->streaming = 1;
    c->dialect = dialect;
    c->sent = 0;
    c->chunks = count ? atoi(count) : 100;
    c->interval = pace ? atoi(pace) * 1000000ull : 0;
    if (c->interval) {
        c->due = now() + c->interval;
        enqueue(c);
    } else {
        c->listed = 1;
        streams[stream_count++] = c;
    }
    return emit(c, begin[dialect], begin_len[dialect]);
}

/* Answer every whole request that is buffered; -1: the peer is gone. */
static int process(Conn *c) {
    while (!c->streaming && c->in_len > 0) {
        c->in[c->in_len] = 0;
        char *end = memmem(c->in, c->in_len, "\r\n\r\n", 4);
        if (!end) return 0;
        char *body = end + 4, saved = end[2];
        end[2] = 0;
        char *length = strcasestr(c->in, "\r\ncontent-length:");
        char *auth = strcasestr(c->in, "\r\nauthorization: bearer ");
        long need = length ? strtol(length + 17, NULL, 10) : 0;
        char *own = strcasestr(c->in, "\r\nx-api-key: ");
        int authorised = auth && !strncmp(auth + 24, key, strlen(key)), get = !strncmp(c->in, "GET ", 4);
        authorised |= own && !strncmp(own + 13, key, strlen(key));
        int dialect = memmem(c->in, strcspn(c->in, "\r"), "/messages ", 10) ? MESSAGES : CHAT;
        end[2] = saved;
        if (c->in_len - (body - c->in) < need) return 0;
        char after = body[need];
        body[need] = 0;
        int gone = get ? emit(c, listing, listing_len) : ask(c, body, authorised, dialect);
        body[need] = after;
        if (gone < 0) return -1;
        long used = (body - c->in) + need;
        memmove(c->in, c->in + used, c->in_len - used);
        c->in_len -= used;
    }
    return 0;
}

/* One chunk, or the end of the stream and whatever the peer asked for meanwhile; -1: the peer is gone. */
static int step(Conn *c) {
    if (c->sent < c->chunks) {
        char out[512], digits[16];
        int said = c->dialect;
        memcpy(out, chunk[said], chunk_len[said]);
        snprintf(digits, sizeof digits, "%04d", c->sent++ % 10000);
        memcpy(out + chunk_digits[said], digits, 4);
        return emit(c, out, chunk_len[said]);
    }
    c->streaming = 0;
    unlist(c);
    if (emit(c, last[c->dialect], last_len[c->dialect]) < 0) return -1;
    return process(c);
}

static void accept_all(int listener) {
    for (int fd, one = 1; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        Conn *c = calloc(1, sizeof *c);
        c->fd = fd;
        c->in_cap = FIRST_BUFFER;
        c->in = malloc(c->in_cap + 1);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
    }
}

static int receive(Conn *c) {
    for (;;) {
        if (c->in_len == c->in_cap) c->in = realloc(c->in, (c->in_cap *= 2) + 1);
        long room = c->in_cap - c->in_len;
        ssize_t r = recv(c->fd, c->in + c->in_len, room, 0);
        if (r < 0) return errno == EAGAIN ? 0 : -1;
        if (r == 0) return -1;
        c->in_len += r;
        if (r < room) return 0;
    }
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    key = argv[2];
    model = argv[3];
    signal(SIGPIPE, SIG_IGN);
    build();
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 4096)) {
        perror("mock");
        return 1;
    }
    epoll_fd = epoll_create1(0);
    struct epoll_event ready[512], e = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e);
    for (;;) {
        int wait = stream_count ? 0 : -1;
        if (wait && first) {
            uint64_t t = now();
            wait = first->due <= t ? 0 : (int)((first->due - t + 999999) / 1000000);
        }
        int n = epoll_wait(epoll_fd, ready, 512, wait);
        for (int i = 0; i < n; i++) {
            Conn *c = ready[i].data.ptr;
            if (!c) {
                accept_all(listener);
                continue;
            }
            int gone = ready[i].events & EPOLLOUT ? flush(c) : 0;
            if (!gone && ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) gone = receive(c);
            if (!gone) gone = process(c);
            if (gone) drop(c);
        }
        uint64_t t = first ? now() : 0;
        while (first && first->due <= t) {
            Conn *c = first;
            uint64_t interval = c->interval;
            dequeue(c);
            c->due += interval;
            int gone = step(c);
            if (gone) drop(c);
            else if (c->streaming && !c->queued && !c->listed) enqueue(c);
        }
        for (int i = 0; i < stream_count;) {
            Conn *c = streams[i];
            int before = stream_count;
            if (c->out_len == c->out_pos && step(c) < 0)
                drop(c);
            else if (stream_count == before)
                i++;
        }
    }
}

/* Mock OpenAI chat/completions upstream: single-threaded epoll, HTTP/1.1 keep-alive.
 * gcc -O2 -o mock mock.c ; ./mock PORT [UPSTREAM_KEY] [UPSTREAM_MODEL]
 * Request body knobs (pass through every gateway unchanged):
 *   "stream":true   -> SSE; "max_tokens":N -> N content chunks (default 100); "seed":MS -> ms between chunks (0 = as
 *   fast as possible, one write() per chunk, round-robin over streams). Not streaming: "seed":MS = delay of the answer.
 * GET .../models lists the upstream model.
 * 401 unless the upstream key is sent, 404 unless the body names the upstream model. GET /stats gives counters. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <fcntl.h>

typedef struct conn {
  int fd, inlen, incap, pending_close, want_out;
  char *in; char *out; size_t outlen, outpos, outcap;
  int mode; /* 0 idle 1 delayed answer 2 stream */
  int n, k, interval; uint64_t due; int hidx; int inready;
} conn;
static int ep; static const char *KEY = "sk-upstream", *MODEL = "up-model";
static long n_req, n_stream, n_401, n_404;
static conn *heap[65536]; static int hn; static conn *ready[65536]; static int rn;
static uint64_t now_ns(void){ struct timespec t; clock_gettime(CLOCK_MONOTONIC,&t); return t.tv_sec*1000000000ull+t.tv_nsec; }
static void hswap(int a,int b){ conn*t=heap[a]; heap[a]=heap[b]; heap[b]=t; heap[a]->hidx=a; heap[b]->hidx=b; }
static void hup(int i){ while(i&&heap[(i-1)/2]->due>heap[i]->due){ hswap(i,(i-1)/2); i=(i-1)/2; } }
static void hdown(int i){ for(;;){ int l=2*i+1,m=i; if(l<hn&&heap[l]->due<heap[m]->due)m=l; if(l+1<hn&&heap[l+1]->due<heap[m]->due)m=l+1; if(m==i)return; hswap(i,m); i=m; } }
static void hpush(conn*c){ c->hidx=hn; heap[hn++]=c; hup(hn-1); }
static void hdel(conn*c){ int i=c->hidx; if(i<0)return; hn--; if(i!=hn){ heap[i]=heap[hn]; heap[i]->hidx=i; hup(i); hdown(heap[i]->hidx==i?i:heap[i]->hidx); } c->hidx=-1; }
static void rpush(conn*c){ if(!c->inready){ c->inready=1; ready[rn++]=c; } }
static void rdel(conn*c){ if(c->inready){ for(int i=0;i<rn;i++) if(ready[i]==c){ ready[i]=ready[--rn]; break; } c->inready=0; } }
static void closec(conn*c){ hdel(c); rdel(c); close(c->fd); free(c->in); free(c->out); free(c); }
static void armout(conn*c,int on){ if(c->want_out==on)return; c->want_out=on; struct epoll_event e={.events=EPOLLIN|(on?EPOLLOUT:0),.data.ptr=c}; epoll_ctl(ep,EPOLL_CTL_MOD,c->fd,&e); }
/* returns -1 on a dead peer */
static int emit(conn*c,const char*b,size_t n){
  if(c->outlen==c->outpos){ c->outlen=c->outpos=0; ssize_t w=send(c->fd,b,n,MSG_NOSIGNAL); if(w<0){ if(errno!=EAGAIN)return -1; w=0; } if((size_t)w==n)return 0; b+=w; n-=w; }
  if(c->outlen+n>c->outcap){ c->outcap=(c->outlen+n)*2; c->out=realloc(c->out,c->outcap); }
  memcpy(c->out+c->outlen,b,n); c->outlen+=n; armout(c,1); return 0; }
static int flushc(conn*c){ while(c->outpos<c->outlen){ ssize_t w=send(c->fd,c->out+c->outpos,c->outlen-c->outpos,MSG_NOSIGNAL); if(w<0)return errno==EAGAIN?0:-1; c->outpos+=w; } c->outlen=c->outpos=0; armout(c,0); return 0; }
static char plain[2048]; static int plain_n; static char chunk[512]; static int chunk_n, chunk_off; static char fin[1024]; static int fin_n;
static const char *SHDR="HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
static void build(void){
  char b[1500]; int n=snprintf(b,sizeof b,"{\"id\":\"chatcmpl-mock0000000000000000000001\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"%s\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hello from the mock upstream. This sentence is here so that the whole answer is about six hundred bytes long, which is what a short reply of a chat model looks like on the wire, headers not counted. mock-answer-end\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":40,\"total_tokens\":52},\"system_fingerprint\":\"fp_mock\"}",MODEL);
  plain_n=snprintf(plain,sizeof plain,"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",n,b);
  n=snprintf(b,sizeof b,"data: {\"id\":\"chatcmpl-mock0000000000000000000001\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"tok0000 \"},\"finish_reason\":null}]}\n\n",MODEL);
  chunk_n=snprintf(chunk,sizeof chunk,"%x\r\n%s\r\n",n,b); chunk_off=strstr(chunk,"tok0000")-chunk+3;
  n=snprintf(b,sizeof b,"data: {\"id\":\"chatcmpl-mock0000000000000000000001\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",MODEL);
  fin_n=snprintf(fin,sizeof fin,"%x\r\n%s\r\n0\r\n\r\n",n,b); }
static int simple(conn*c,int code,const char*body){ char b[512]; int n=snprintf(b,sizeof b,"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",code,strlen(body),body); return emit(c,b,n); }
static int process(conn*c);
static int step(conn*c){ /* one chunk */
  if(c->k<c->n){ char b[512]; memcpy(b,chunk,chunk_n); int k=c->k%10000; b[chunk_off]='0'+k/1000; b[chunk_off+1]='0'+k/100%10; b[chunk_off+2]='0'+k/10%10; b[chunk_off+3]='0'+k%10; c->k++; return emit(c,b,chunk_n); }
  c->mode=0; rdel(c); if(emit(c,fin,fin_n)<0)return -1; return process(c); }
static long num(const char*b,const char*k,long d){ const char*p=strstr(b,k); if(!p)return d; p+=strlen(k); while(*p==' '||*p==':')p++; return strtol(p,0,10); }
static int process(conn*c){
  while(c->mode==0&&c->inlen>0){
    c->in[c->inlen]=0; char*e=memmem(c->in,c->inlen,"\r\n\r\n",4); if(!e)return 0;
    char save=e[2]; e[2]=0; long cl=0; int chunked=0; char*p=strcasestr(c->in,"\r\ncontent-length:"); if(p)cl=strtol(p+17,0,10);
    p=strcasestr(c->in,"\r\ntransfer-encoding:"); if(p&&strncasecmp(p+21,"chunked",7)==0)chunked=1;
    int auth=0; p=strcasestr(c->in,"\r\nauthorization: bearer "); if(p&&!strncmp(p+24,KEY,strlen(KEY)))auth=1; int get=!strncmp(c->in,"GET ",4), list=get&&strstr(c->in,"/models ")!=0; e[2]=save;
    char*body=e+4; long have=c->inlen-(body-c->in),used;
    if(chunked){ char*z=memmem(body,have,"\r\n0\r\n\r\n",7); if(!z)return 0; used=z+7-body; } else { if(have<cl)return 0; used=cl; }
    char sv=body[used]; body[used]=0; int r=0;
    if(list){ char s[200]; snprintf(s,sizeof s,"{\"object\":\"list\",\"data\":[{\"id\":\"%s\",\"object\":\"model\"}]}",MODEL); r=simple(c,200,s); }
    else if(get){ char s[200]; snprintf(s,sizeof s,"{\"requests\":%ld,\"streams\":%ld,\"bad_key\":%ld,\"bad_model\":%ld}",n_req,n_stream,n_401,n_404); r=simple(c,200,s); }
    else if(!auth){ n_401++; r=simple(c,401,"{\"error\":{\"message\":\"bad upstream key\",\"type\":\"auth\",\"code\":\"invalid_api_key\"}}"); }
    else if(!strstr(body,MODEL)){ n_404++; r=simple(c,404,"{\"error\":{\"message\":\"no such model\",\"type\":\"invalid_request_error\",\"code\":\"model_not_found\"}}"); }
    else { n_req++; p=strstr(body,"\"stream\""); int st=0; if(p){ p+=8; while(*p==' '||*p==':')p++; st=!strncmp(p,"true",4); }
      long ms=num(body,"\"seed\"",0);
      if(st){ n_stream++; c->mode=2; c->k=0; c->n=num(body,"\"max_tokens\"",100); c->interval=ms; r=emit(c,SHDR,strlen(SHDR)); if(ms){ c->due=now_ns()+ms*1000000ull; hpush(c); } else rpush(c); }
      else if(ms){ c->mode=1; c->due=now_ns()+ms*1000000ull; hpush(c); } else r=emit(c,plain,plain_n); }
    body[used]=sv; if(r<0)return -1; long tot=(body-c->in)+used; memmove(c->in,c->in+tot,c->inlen-tot); c->inlen-=tot;
  } return 0; }
int main(int ac,char**av){
  int port=ac>1?atoi(av[1]):9000; if(ac>2)KEY=av[2]; if(ac>3)MODEL=av[3]; signal(SIGPIPE,SIG_IGN); build();
  int ls=socket(AF_INET,SOCK_STREAM|SOCK_NONBLOCK,0),one=1; setsockopt(ls,SOL_SOCKET,SO_REUSEADDR,&one,sizeof one);
  struct sockaddr_in a={.sin_family=AF_INET,.sin_port=htons(port),.sin_addr.s_addr=htonl(INADDR_LOOPBACK)}; if(bind(ls,(void*)&a,sizeof a)||listen(ls,4096)){ perror("bind"); return 1; }
  ep=epoll_create1(0); struct epoll_event e={.events=EPOLLIN,.data.ptr=0}; epoll_ctl(ep,EPOLL_CTL_ADD,ls,&e); struct epoll_event ev[512];
  for(;;){ int to=-1; if(rn)to=0; else if(hn){ uint64_t t=now_ns(); to=heap[0]->due<=t?0:(int)((heap[0]->due-t+999999)/1000000); }
    int m=epoll_wait(ep,ev,512,to);
    for(int i=0;i<m;i++){ conn*c=ev[i].data.ptr;
      if(!c){ for(;;){ int fd=accept4(ls,0,0,SOCK_NONBLOCK); if(fd<0)break; setsockopt(fd,IPPROTO_TCP,TCP_NODELAY,&one,sizeof one); c=calloc(1,sizeof *c); c->fd=fd; c->hidx=-1; c->incap=16384; c->in=malloc(c->incap+1); e.events=EPOLLIN; e.data.ptr=c; epoll_ctl(ep,EPOLL_CTL_ADD,fd,&e);} continue; }
      int dead=0; if(ev[i].events&EPOLLOUT&&flushc(c)<0)dead=1;
      if(!dead&&ev[i].events&(EPOLLIN|EPOLLHUP|EPOLLERR)) for(;;){ if(c->inlen==c->incap){ c->incap*=2; c->in=realloc(c->in,c->incap+1);} ssize_t r=recv(c->fd,c->in+c->inlen,c->incap-c->inlen,0); if(r>0){ int full=r==c->incap-c->inlen; c->inlen+=r; if(!full)break; } else { if(r==0||errno!=EAGAIN)dead=1; break; } }
      if(!dead&&c->mode==0&&process(c)<0)dead=1; if(dead)closec(c); }
    uint64_t t=now_ns();
    while(hn&&heap[0]->due<=t){ conn*c=heap[0]; int r; hdel(c);
      if(c->mode==1){ c->mode=0; r=emit(c,plain,plain_n); if(r==0)r=process(c); }
      else { c->due+=c->interval*1000000ull; r=step(c); if(r==0&&c->mode==2&&c->interval&&c->hidx<0)hpush(c); }
      if(r<0)closec(c); }
    for(int i=0;i<rn;){ conn*c=ready[i]; if(c->outlen>c->outpos){ i++; continue; } int b=rn; if(step(c)<0){ closec(c); continue; } if(rn==b&&ready[i]==c)i++; }
  } }

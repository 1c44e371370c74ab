//! iceoryx2 - requests are written into loaned samples, sent, and read in place; the answers are
//! samples, too. Layer: apps/peers. Threads: one per process.
use core::ffi::{c_char, c_void, CStr};
use core::mem::MaybeUninit;
use iceoryx2::port::{publisher::Publisher, subscriber::Subscriber};
use iceoryx2::prelude::*;
use iceoryx2::sample_mut_uninit::SampleMutUninit;

const SUM_LEN: usize = 8;
const NAME_MAX: usize = 64;

/// struct peer_job.
#[repr(C)]
pub struct Job {
    lane: *const c_char,
    request: u64,
    reply: u64,
    window: u32,
    ends: bool,
    sleep: bool,
    rewrite: bool,
}

#[repr(C)]
pub struct Part {
    base: *const c_void,
    len: usize,
}

extern "C" {
    fn peer_send_text(channel: *mut c_void, bytes: *const c_void, len: usize);
    fn peer_receive_text(channel: *mut c_void, bytes: *mut c_void, cap: usize) -> usize;
    fn peer_serve(job: *const Job, part: *const Part, parts: u32, reply: *mut c_void);
    fn peer_end_at(slot: u32, bytes: *const c_void, len: usize);
}

type Loan = SampleMutUninit<ipc::Service, [MaybeUninit<u8>], u64>;

/// One process: it sends on one service and receives on the other. The user header of a sample is
/// the slot of its request.
struct End {
    job: *const Job,
    len: usize,
    to: Publisher<ipc::Service, [u8], u64>,
    from: Subscriber<ipc::Service, [u8], u64>,
    loan: Vec<Option<Loan>>,
    _node: Node<ipc::Service>,
}

fn open(job: *const Job, name: &str, to: &str, from: &str, len: usize) -> End {
    let node = NodeBuilder::new().create::<ipc::Service>().expect("iceoryx2: a node");
    let window = unsafe { (*job).window } as usize;
    let service = |which: &str| {
        node.service_builder(&format!("{name}/{which}").as_str().try_into().expect("a name"))
            .publish_subscribe::<[u8]>()
            .user_header::<u64>()
            .max_publishers(1)
            .max_subscribers(1)
            .subscriber_max_buffer_size(window)
            .subscriber_max_borrowed_samples(window)
            .enable_safe_overflow(false)
            .open_or_create()
            .expect("iceoryx2: a service")
    };
    End {
        job,
        len,
        to: service(to)
            .publisher_builder()
            .initial_max_slice_len(len)
            .max_loaned_samples(window + 1)
            .create()
            .expect("iceoryx2: a publisher"),
        from: service(from).subscriber_builder().create().expect("iceoryx2: a subscriber"),
        loan: (0..window).map(|_| None).collect(),
        _node: node,
    }
}

impl End {
    fn take(&self) -> Loan {
        self.to.loan_slice_uninit(self.len).expect("iceoryx2: no sample")
    }

    fn send(mut loan: Loan, slot: u64) {
        *loan.user_header_mut() = slot;
        unsafe { loan.assume_init() }.send().expect("iceoryx2: cannot send");
    }
}

#[no_mangle]
pub extern "C" fn peer_server_open(job: *const Job, channel: *mut c_void) -> *mut c_void {
    let name = format!("lend-peer-{}\0", std::process::id());
    let end = open(job, name.trim_end_matches('\0'), "answers", "requests", SUM_LEN);

    unsafe { peer_send_text(channel, name.as_ptr().cast(), name.len()) };
    Box::into_raw(Box::new(end)).cast()
}

/// # Safety
/// server is what peer_server_open() returned; likewise for the functions below.
#[no_mangle]
pub unsafe extern "C" fn peer_server_turn(server: *mut c_void) {
    let end = &*server.cast::<End>();

    while let Some(sample) = end.from.receive().expect("iceoryx2: cannot receive") {
        let mut answer = end.take();
        let part = Part { base: sample.payload().as_ptr().cast(), len: sample.payload().len() };

        peer_serve(end.job, &part, 1, answer.payload_mut().as_mut_ptr().cast());
        End::send(answer, *sample.user_header());
    }
}

#[no_mangle]
pub unsafe extern "C" fn peer_server_close(server: *mut c_void) {
    drop(Box::from_raw(server.cast::<End>()));
}

#[no_mangle]
pub unsafe extern "C" fn peer_client_open(job: *const Job, channel: *mut c_void) -> *mut c_void {
    let mut name = [0u8; NAME_MAX];
    let _ = peer_receive_text(channel, name.as_mut_ptr().cast(), name.len() - 1);
    let name = CStr::from_bytes_until_nul(&name).unwrap().to_str().unwrap();

    Box::into_raw(Box::new(open(job, name, "requests", "answers", (*job).request as usize))).cast()
}

#[no_mangle]
pub unsafe extern "C" fn peer_client_place(client: *mut c_void, slot: u32) -> *mut c_void {
    let end = &mut *client.cast::<End>();
    let mut loan = end.take();
    let place = loan.payload_mut().as_mut_ptr();

    end.loan[slot as usize] = Some(loan);
    place.cast()
}

#[no_mangle]
pub unsafe extern "C" fn peer_client_start(client: *mut c_void, slot: u32, request: *const c_void) -> i32 {
    let end = &mut *client.cast::<End>();
    let mut loan = end.loan[slot as usize].take().unwrap_or_else(|| end.take());
    let place = loan.payload_mut().as_mut_ptr();

    if place.cast_const().cast() != request {
        core::ptr::copy_nonoverlapping(request.cast(), place, end.len);
    }
    End::send(loan, slot.into());
    0
}

#[no_mangle]
pub unsafe extern "C" fn peer_client_turn(client: *mut c_void) {
    let end = &*client.cast::<End>();

    while let Some(sample) = end.from.receive().expect("iceoryx2: cannot receive") {
        peer_end_at(*sample.user_header() as u32, sample.payload().as_ptr().cast(), SUM_LEN);
    }
}

#[no_mangle]
pub unsafe extern "C" fn peer_client_close(client: *mut c_void) {
    drop(Box::from_raw(client.cast::<End>()));
}

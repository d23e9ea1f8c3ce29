// SPDX-License-Identifier: Apache-2.0
//! Frames/s of groups of threads that take turns, so that a machine whose speed varies is the same for all of them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;

/// Turns of each group in which a figure is measured.
const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(300);

/// One batch of a worker: its number in, the frames of the batch out.
pub type Step<'a> = Box<dyn FnMut(usize) -> Result<usize, Failure> + 'a>;
/// Makes the step of one worker on its own thread.
pub type MakeStep<'a> = &'a (dyn Fn() -> Result<Step<'a>, Failure> + Sync);

/// The mean of all rounds.
pub fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// Frames/s of all workers of each of `makers` in each round. The makers take turns: `workers` threads each, of which those of one
/// run and the others wait.
pub fn in_turns(
    workers: usize,
    time: Duration,
    makers: &[MakeStep<'_>],
) -> Result<Vec<Vec<f64>>, Failure> {
    let barrier = Barrier::new(workers * makers.len());
    let failed = AtomicBool::new(false);
    let time = time / ROUNDS as u32;
    let run = |maker: usize, worker: usize| -> Result<Vec<f64>, Failure> {
        let mut made = makers[maker]();
        failed.fetch_or(made.is_err(), Ordering::SeqCst);
        let mut rates = Vec::new();
        let mut index = worker;
        // Round 0 is the warm-up: each thread that calls ONNX Runtime gets its own handles of NVIDIA's libraries.
        for round in 0..=ROUNDS {
            for turn in 0..makers.len() {
                barrier.wait();
                if turn != maker || failed.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(step) = &mut made else { continue };
                let (begin, mut frames) = (Instant::now(), 0);
                let limit = if round == 0 { WARM_UP } else { time };
                while begin.elapsed() < limit {
                    match step(index) {
                        Ok(count) => frames += count,
                        Err(error) => {
                            failed.store(true, Ordering::SeqCst);
                            made = Err(error);
                            break;
                        }
                    }
                    index += 1;
                }
                if round > 0 {
                    rates.push(frames as f64 / begin.elapsed().as_secs_f64());
                }
            }
        }
        made.map(|_| rates)
    };
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<Vec<_>> = (0..makers.len())
            .map(|maker| {
                let spawn = |worker| scope.spawn(move || run(maker, worker));
                (0..workers).map(spawn).collect()
            })
            .collect();
        let mut all = Vec::new();
        for threads in threads {
            let mut sums = vec![0.0; ROUNDS];
            for thread in threads {
                let rates = thread.join().expect("a worker that does not panic")?;
                for (sum, rate) in sums.iter_mut().zip(rates) {
                    *sum += rate;
                }
            }
            all.push(sums);
        }
        Ok(all)
    })
}

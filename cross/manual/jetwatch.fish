# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_jetwatch_global_optspecs
    string join \n h/help V/version
end

function __fish_jetwatch_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_jetwatch_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_jetwatch_using_subcommand
    set -l cmd (__fish_jetwatch_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c jetwatch -n "__fish_jetwatch_needs_command" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -s V -l version -d 'Print version'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "run" -d 'Run the daemon: every source of the configuration, until told to stop'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "check" -d 'Say whether the configuration, the model, the sources and the broker work'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "doctor" -d 'Examine this machine: a line for each thing that the daemon needs, and what to do where it is wrong'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "demo" -d 'Show the whole chain at work, with events as a subscriber sees them'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "subscribe" -d 'Subscribe to a broker and print its messages as they come'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "bench" -d 'Measure parts of the chain'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "profile" -d 'Record the daemon by Nsight Systems, here or over ssh, and say where its time goes'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "report" -d 'Say what profiles of Nsight Systems and benchmarks mean: tables, verdicts, comparisons, plots'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "model" -d 'Fetch networks, look into ONNX files, and describe them for the daemon'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "engine" -d 'Build and look into what TensorRT runs: the engine of a network for this machine\'s GPU'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "eval" -d 'Say how accurate a model is on annotated pictures'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "tune" -d 'Set power mode, clocks and fan of the machine as configured, or give them back'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "track" -d 'Track detections from a MOTChallenge text file'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "dataset" -d 'Write labeled pictures of the built-in street scene, for training and judging networks'
complete -c jetwatch -n "__fish_jetwatch_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand run" -s c -l config -d 'Configuration file' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand run" -l duration -d 'End after this time, such as 20s or 5m' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand run" -l max-frames -d 'End after this many frames, over all sources' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand run" -l warmup-frames -d 'Measure only after this many frames' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand run" -l batch-size -d 'Most frames in one batch, instead of detector.batch_size' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand run" -l stats -d 'Write the run\'s numbers to this file as JSON' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand run" -l dot -d 'Write DOT graphs of every GStreamer pipeline to this folder: on changes of state, on errors, and on SIGUSR1' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand run" -l dump-detections -d 'Write every frame\'s detections, before the tracker, as MOTChallenge text (one source only)' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand run" -l record -d 'Record video of all sources with their tracks drawn in to this file: .mp4, .mkv or .webm. What the encoder cannot keep up with is dropped, never the detection' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand run" -l root -d 'Folder that stands for the whole system, for tests' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand run" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand check" -s c -l config -d 'Configuration file' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand check" -l root -d 'Folder that stands for the whole system, for tests' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand check" -l file-only -d 'Check the file alone: open no model, source or broker'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand check" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand doctor" -l only -d 'Examine these parts alone' -r -f -a "config\t'The configuration file'
platform\t'Machine, release, memory, disk, clock'
libraries\t'NVIDIA\'s libraries, ONNX Runtime, GStreamer'
elements\t'GStreamer\'s elements and their properties'
scaling\t'Scaling and decoding, each unit against the processor'
cameras\t'Cameras and who may use them'
engine\t'GPU, engines, and the detector at work'
power\t'Settings of the machine, and what slows it down'
profiling\t'Who may profile, and with what'
service\t'systemd\'s unit and the journal'
broker\t'The broker'"
complete -c jetwatch -n "__fish_jetwatch_using_subcommand doctor" -s c -l config -d 'Configuration file; by default /etc/jetwatch/jetwatch.yaml where it is there' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand doctor" -l model -d 'Model folder; by default that of the shipped network' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand doctor" -l precision -d 'Precision to examine; by default int8 where the model has it, else its first' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand doctor" -l tensorrt -d 'Path of libnvinfer.so, or the folder that holds it' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand doctor" -l engines -d 'Folder of the engines; a missing engine is built' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand doctor" -l onnxruntime -d 'Path of libonnxruntime.so' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand doctor" -l record -d 'Write what ONNX Runtime finds in all precisions to this file: golden.json of a model folder' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand doctor" -l json -d 'Write the results to this file as JSON' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand doctor" -l root -d 'Folder that stands for the whole system, for tests' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand doctor" -l detector -d 'Examine the detector alone, and build its engine if it is missing: TensorRT and ONNX Runtime, as far as they are here, against recorded detections'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand demo" -l source -d 'Any source: a video file, rtsp://…, v4l2:///dev/video0, synthetic://…' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand demo" -l model -d 'Model folder with its model.yaml; without one, ground truth of a synthetic source stands in for the network' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand demo" -l duration -d 'End after this time, such as 20s or 5m' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand demo" -l interval -d 'Frames that skip the network after each one that goes through it; the tracker carries the tracks meanwhile' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand demo" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand subscribe" -s c -l config -d 'Configuration file whose broker, user and certificates are used' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand subscribe" -l host -d 'Host name or address of the broker' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand subscribe" -l port -d 'Port of the broker' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand subscribe" -l topic -d 'Topic filter' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand subscribe" -l duration -d 'End after this time, such as 20s or 5m' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand subscribe" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -s c -l config -d 'Configuration file. Its messages go to a broker inside of the benchmark and to files in the output folder' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l source -d 'Any source, in the place of a configuration: a video file, rtsp://…, synthetic://…' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l model -d 'Model folder with its model.yaml; without one, ground truth of a synthetic source stands in for the network' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l set -d 'Set a key of the configuration, such as detector.workers=2. May be given several times' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l only -d 'Measure one part alone, the others fed from memory or left out' -r -f -a "decode\t'The sources: decoding, scaling, and what is between'
scale\t'Scaling of one picture of the first source\'s size, repeated from memory'
detect\t'Tensor, network and decoding of its output, on preloaded frames'
track\t'Tracker and life cycle, on detections of preloaded frames'
publish\t'Messages of preloaded frames, up to the queues'
layers\t'Each layer of the network, run by run on single frames (TensorRT alone)'"
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l batches -d 'End after this many batches, warm-up included' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l frames -d 'End after this many frames, warm-up included. Default where nothing is given: 1000, with --ablation 300' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l duration -d 'End after this time, such as 20s or 5m' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -s w -l warmup -d 'Batches that are dropped at the front, and as many at the end' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l preload -d 'With --only: frames to load beforehand; they are used in turns' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -s o -l output -d 'Folder for benchmark.json, in which everything is written that this command writes' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l sweep -d 'Try every value of a key of the configuration: batch_size=1,2,4. Several of them are combined' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l compare -d 'A second configuration that is run in turns with the first' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l repeat -d 'Run everything so many times. Default: 5 with --compare, else 1' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l processes -d 'Processes that run side by side on each GPU, each on processor cores of its own' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l gpus -d 'GPUs that have processes of their own' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l ablation-step -d 'Which step of the ablation this process runs, from 1' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l cores -d 'Processor cores for this process, numbers with commas' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l root -d 'Folder that stands for the whole system, for tests' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l json -d 'Print the speeds as JSON, not the tables'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l ablation -d 'Run an ablation: six steps from a naive pipeline to the best one (queues, no rendering, scaling first, batches, INT8 at intervals), with the gain of each step'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l maximize-clocks -d 'Hold the clocks at their highest while it runs, as root, and give them back'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l no-record -d 'Keep no single ranges, only speeds: to see what keeping them costs'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -l one-of-several -d 'This process is one of several: end with the one that started it'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -s c -l config -d 'Configuration file of this machine; it is copied to another one' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l host -d 'Profile on this machine, over ssh' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l ssh-option -d 'Option for ssh, such as Port=2222, IdentityFile=key or ProxyJump=gate; what begins with `-` is an argument of its own, such as -Ffile' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l ssh -d 'The ssh to use' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l sudo -d 'Work as this user there, by sudo without a password; sessions of nsys are seen by their own user alone' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l duration -d 'Record for this long, such as 20s or 5m; by default 10s, or as long as --frames needs' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l warmup -d 'Begin to record this long after the start' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l frames -d 'End after this many frames, over all sources' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l batch-sizes -d 'Make one profile with each of these batch sizes' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l trace -d 'Traces; by default cuda, nvtx, osrt and those of the machine\'s units for video, DLA and so on that its nsys knows' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l sampling -d 'Whether nsys samples the CPU' -r -f -a "auto\t'Where the machine allows it'
on\t'Even where the machine says that it does not work'
off\t'Never'"
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l session -d 'The session of nsys in which the service runs' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -s o -l output -d 'Where to write: NAME.nsys-rep, NAME.sqlite and NAME.stats.json' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l program -d 'The jetwatch to profile; by default this one, and over ssh the one in the search path there' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l remote-dir -d 'Folder of the other machine that relative paths of the configuration refer to: models, secrets' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l target-folder -d 'Folder for temporary files where the daemon runs' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l target-nsys -d 'The nsys that records' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l nsys -d 'The nsys of this machine that exports' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l export-timeout -d 'How long nsys may take beyond the time to record, on a slow machine' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l attach -d 'Profile the running service, which nsys must have started (systemd/drop-ins/profiling.conf)'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l force -d 'Overwrite what is there'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -l fetch-only -d 'Bring the profile here, without exporting it and without a report'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand profile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand report" -s t -l table -d 'Tables to show, or all of them' -r -f -a "verdict\t''
stages\t''
nvtx_sum\t''
nvtx_pushpop_sum\t''
nvtx_startend_sum\t''
nvtx_pace\t''
nvtx_gpu_proj_sum\t''
nvtx_gpu_proj_trace\t''
cuda_api_sum\t''
cuda_gpu_kern_sum\t''
cuda_gpu_kern_gb_sum\t''
cuda_gpu_mem_time_sum\t''
cuda_gpu_mem_size_sum\t''
cuda_api_sync\t''
cuda_memcpy_async\t''
cuda_memcpy_sync\t''
cuda_memset_sync\t''
gpu_gaps\t''
gpu_time_util\t''
osrt_sum\t''
osrt_waits\t''
all\t''"
complete -c jetwatch -n "__fish_jetwatch_using_subcommand report" -s f -l format -d 'How to write them' -r -f -a "text\t'For a terminal'
csv\t'With the headings and units of `nsys stats`'
json\t'One object with everything'"
complete -c jetwatch -n "__fish_jetwatch_using_subcommand report" -l html -d 'Write one page with tables and plots to this file' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand report" -l from -d 'Look at events from this time after the capture\'s start on, such as 1.5s or 300ms' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand report" -l until -d 'Look at events up to this time' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand report" -l within -d 'Look at events during this NVTX range: `jetwatch:infer`, or `infer@jetwatch` as nsys has it; `jetwatch:infer#3` is its third' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand report" -l rows -d 'Most rows of a table for a terminal or a page, and of one that lists single events; 0: all' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand report" -l nsys -d 'The nsys that exports reports' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand report" -l diff -d 'Say what changed from the first of two files to the second'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and not __fish_seen_subcommand_from list fetch inspect init help" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and not __fish_seen_subcommand_from list fetch inspect init help" -f -a "list" -d 'List the networks that can be fetched'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and not __fish_seen_subcommand_from list fetch inspect init help" -f -a "fetch" -d 'Fetch a network of the list into a model folder: resumed when cut off, verified by length and hash'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and not __fish_seen_subcommand_from list fetch inspect init help" -f -a "inspect" -d 'Say what an ONNX file holds, and what the runtimes will say to it'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and not __fish_seen_subcommand_from list fetch inspect init help" -f -a "init" -d 'Write a model folder for an ONNX file: its description with what could be read, and what had to be guessed'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and not __fish_seen_subcommand_from list fetch inspect init help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from list" -l json -d 'Print JSON'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from fetch" -l into -d 'The model folder; by default models/NAME' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from fetch" -l from -d 'Fetch the same file from another address, such as a mirror inside a plant' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from fetch" -l accept-unverified -d 'Take a file whose hash nobody knows yet'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from fetch" -l force -d 'Replace a file or description that is there'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from fetch" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from inspect" -l json -d 'Print JSON'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from inspect" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from init" -l out -d 'The model folder; by default models/NAME, after the file. The file is copied there unless it is there already' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from init" -l layout -d 'Take this output layout instead of the most likely one' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from init" -l labels -d 'Names of the classes, one a line, in the network\'s order' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from init" -l size -d 'Size of the input where the network leaves it open' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from init" -l force -d 'Replace files that are there'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from init" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the networks that can be fetched'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "fetch" -d 'Fetch a network of the list into a model folder: resumed when cut off, verified by length and hash'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "inspect" -d 'Say what an ONNX file holds, and what the runtimes will say to it'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "init" -d 'Write a model folder for an ONNX file: its description with what could be read, and what had to be guessed'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and not __fish_seen_subcommand_from build inspect list help" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and not __fish_seen_subcommand_from build inspect list help" -f -a "build" -d 'Build the engine of a model and keep it where the daemon finds it. Takes minutes on a Jetson'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and not __fish_seen_subcommand_from build inspect list help" -f -a "inspect" -d 'Say what an engine file is, without loading it'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and not __fish_seen_subcommand_from build inspect list help" -f -a "list" -d 'List the engines that were built, and whether they are whole'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and not __fish_seen_subcommand_from build inspect list help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -s c -l config -d 'Build the engine that this configuration file asks for; the other options change what it says' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l model -d 'Build the engine of this model folder, with the settings that a configuration has by default' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l precision -d 'What it computes in: fp32, fp16 or int8; by default the model\'s first' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l batch -d 'Most pictures in one run; detector.batch_size' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l workers -d 'Detectors that run side by side; detector.workers' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l dla -d 'Number of the DLA core that runs what it can of the network, from 0' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l workspace -d 'Memory that a layer may use while it computes' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l calibration-images -d 'Calibrate the fp32 network with the JPEG and PNG files in this folder, some hundred of what the cameras see (TensorRT 8 and 10)' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l calibration -d 'Calibration cache: read, or written with --calibration-images; by default MODEL.calibration beside the engines' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l engines -d 'Folder of the engines' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l tensorrt -d 'TensorRT\'s library, or the folder that holds it' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l output -d 'Copy the engine, with its manifest beside it, to this file too' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l compute-capability -d 'Build for any GPU of this compute capability, such as 8.6, without one (TensorRT-RTX alone)' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l gpu-fallback -d 'With --dla: the GPU runs what the DLA cannot (the default)'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l no-gpu-fallback -d 'With --dla: refuse a network that the DLA cannot run whole'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l force -d 'Build also when the engine is there'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -l prune -d 'Remove engines that differ from this one in the version of TensorRT alone'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from build" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from inspect" -l tensorrt -d 'With --load: TensorRT\'s library, or the folder that holds it' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from inspect" -l dla -d 'With --load: the DLA core to load it for' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from inspect" -l json -d 'Print JSON'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from inspect" -l load -d 'Load it into this machine\'s TensorRT and GPU and tell its layers. An engine holds machine code: only one that you trust'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from inspect" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from list" -s c -l config -d 'Take the folder from this configuration file' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from list" -l engines -d 'Folder of the engines' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from list" -l json -d 'Print JSON'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "build" -d 'Build the engine of a model and keep it where the daemon finds it. Takes minutes on a Jetson'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "inspect" -d 'Say what an engine file is, without loading it'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the engines that were built, and whether they are whole'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand eval" -l model -d 'Model folder with its model.yaml' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand eval" -l images -d 'Folder of the pictures (JPEG, PNG) that the annotations name' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand eval" -l annotations -d 'Annotations as COCO JSON' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand eval" -l precision -d 'Precisions of the model, such as fp32,int8: each is judged, and compared with the first; default: the model\'s first' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand eval" -l score-threshold -d 'Least score for precision, recall and F1, 0 to 1; default: the model\'s own. Average precision takes all scores' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand eval" -l out -d 'Write every number to this file as JSON; `-` is standard output' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand eval" -l detections-out -d 'Write the detections to this file in COCO\'s result format; with several precisions one file each, named FILE.PRECISION.json' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand eval" -l workers -d 'Pictures looked at side by side; default: one for each core' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand eval" -l threads-per-worker -d 'Threads of the network for each of them' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand eval" -l draws -d 'Draws of the bootstrap that gives the 95 % intervals; 0: none' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand eval" -l seed -d 'Seed of those draws' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand eval" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and not __fish_seen_subcommand_from status plan apply restore help" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and not __fish_seen_subcommand_from status plan apply restore help" -f -a "status" -d 'Compare the machine with the configuration, and say what slows it down. Fails when something differs'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and not __fish_seen_subcommand_from status plan apply restore help" -f -a "plan" -d 'Say what `apply` would do. Fails when it would refuse'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and not __fish_seen_subcommand_from status plan apply restore help" -f -a "apply" -d 'Make the settings of the configuration, as root. What fails half-way is undone; a reboot is never confirmed'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and not __fish_seen_subcommand_from status plan apply restore help" -f -a "restore" -d 'Give back what `apply` has changed, as root'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and not __fish_seen_subcommand_from status plan apply restore help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from status" -s c -l config -d 'Configuration file' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from status" -l root -d 'Folder that stands for the whole system, for tests' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from status" -l json -d 'Print JSON'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from plan" -s c -l config -d 'Configuration file' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from plan" -l root -d 'Folder that stands for the whole system, for tests' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from plan" -l json -d 'Print JSON'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from plan" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from apply" -s c -l config -d 'Configuration file' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from apply" -l root -d 'Folder that stands for the whole system, for tests' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from apply" -l json -d 'Print JSON'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from apply" -l after-mode-change -d 'Hold the clocks anew where `apply` holds them and a change of the power mode has freed them; leave all else'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from apply" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from restore" -s c -l config -d 'Configuration file' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from restore" -l root -d 'Folder that stands for the whole system, for tests' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from restore" -l json -d 'Print JSON'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from restore" -l on-stop -d 'Only when the configuration says tune.restore_on_stop, as the unit does when it stops'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from restore" -s h -l help -d 'Print help'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from help" -f -a "status" -d 'Compare the machine with the configuration, and say what slows it down. Fails when something differs'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from help" -f -a "plan" -d 'Say what `apply` would do. Fails when it would refuse'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from help" -f -a "apply" -d 'Make the settings of the configuration, as root. What fails half-way is undone; a reboot is never confirmed'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from help" -f -a "restore" -d 'Give back what `apply` has changed, as root'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand tune; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l detections -d 'Detections, one per line: frame,-1,x,y,width,height,score[,class[,-1,-1]]; `-` reads standard input. May be given several times, once for each sequence' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l out -d 'Where tracks go, one box per line: frame,id,x,y,width,height,score,class,-1,-1; `-` writes standard output. As often as --detections, in the same order' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l metrics -d 'Print how well the tracks follow this ground truth, one box per line: frame,id,x,y,width,height,counts[,…]. As often as --detections, in the same order' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l search -d 'Try other settings around those given: for each sequence, those that are best on all others, and what they are worth on the one that was held out. Needs --metrics and two sequences or more' -r -f -a "hota\t'Higher order tracking accuracy'
mota\t'Multiple object tracking accuracy'
idf1\t'Identity F1'"
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l tracker -d 'Which tracker' -r -f -a "iou\t'Compare with the last box'
sort\t'Compare with the box that a Kalman filter predicts'
bytetrack\t'The same, with weak detections in a second stage'"
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l association -d 'How detections and tracks are paired [default: greedy; sort and bytetrack: optimal]' -r -f -a "greedy\t'Best pair first'
optimal\t'Greatest total intersection over union'"
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l min-iou -d 'Least intersection over union of a detection and the box that a track is expected to have, above 0 to 1; bytetrack takes it times the score [default: 0.3; bytetrack: 0.2]' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l probation-frames -d 'Frames in which a new object must be seen in a row before it is a track [default: 3]' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l max-lost-frames -d 'Frames that a track may go unseen before it ends [default: 30; sort: 1]' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l reassociate-frames -d 'Frames more for which a lost track is kept for a new one that begins where it would have gone [default: 0]' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l min-score -d 'Ignore detections below this score, whatever the scale of the file\'s scores [default: none; bytetrack: 0.1]' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l min-new-track-score -d 'Start no track from a detection below this score, but let it continue one [default: any may; bytetrack: 0.6]' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l tentative-score -d 'bytetrack: pair detections below this score after the others, with tracks in sight only [default: 0.5]' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l tentative-min-iou -d 'bytetrack: least intersection over union of such a detection, above 0 to 1 [default: 0.5]' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l tentative-frames -d 'What to do with the frames before a track was confirmed' -r -f -a "restore\t'Write them once the track is confirmed'
omit\t'Leave them out, as the daemon must'"
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -l match-any-class -d 'Let detections of any class continue a track'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand track" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand dataset" -l out -d 'Folder for the images and annotations.json; made when missing' -r -F
complete -c jetwatch -n "__fish_jetwatch_using_subcommand dataset" -l scenes -d 'Number of scenes; each has a look of its own' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand dataset" -l pictures -d 'Pictures of each scene, at moments far apart' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand dataset" -l seed -d 'Seed of the first scene; scene n has seed + n' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand dataset" -l size -d 'Width and height in pixels' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand dataset" -l objects -d 'Least and most objects in a scene, on average over time' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand dataset" -l merge -d 'Write several labels as one, such as vehicle=car,bus,truck; may be given several times' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand dataset" -l least-visible -d 'Objects of which less is seen, as a share from 0 to 1, are written as `iscrowd`: neither asked for nor counted as wrong' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand dataset" -l least-side -d 'Objects with a shorter side, in pixels, are written as `iscrowd` too' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand dataset" -l format -d 'Format of the pictures' -r -f -a "jpeg\t'Quality 92, as cameras write'
png\t'Without loss'"
complete -c jetwatch -n "__fish_jetwatch_using_subcommand dataset" -l threads -d 'Threads that draw; by default one for each core' -r
complete -c jetwatch -n "__fish_jetwatch_using_subcommand dataset" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "run" -d 'Run the daemon: every source of the configuration, until told to stop'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "check" -d 'Say whether the configuration, the model, the sources and the broker work'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "doctor" -d 'Examine this machine: a line for each thing that the daemon needs, and what to do where it is wrong'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "demo" -d 'Show the whole chain at work, with events as a subscriber sees them'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "subscribe" -d 'Subscribe to a broker and print its messages as they come'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "bench" -d 'Measure parts of the chain'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "profile" -d 'Record the daemon by Nsight Systems, here or over ssh, and say where its time goes'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "report" -d 'Say what profiles of Nsight Systems and benchmarks mean: tables, verdicts, comparisons, plots'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "model" -d 'Fetch networks, look into ONNX files, and describe them for the daemon'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "engine" -d 'Build and look into what TensorRT runs: the engine of a network for this machine\'s GPU'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "eval" -d 'Say how accurate a model is on annotated pictures'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "tune" -d 'Set power mode, clocks and fan of the machine as configured, or give them back'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "track" -d 'Track detections from a MOTChallenge text file'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "dataset" -d 'Write labeled pictures of the built-in street scene, for training and judging networks'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and not __fish_seen_subcommand_from run check doctor demo subscribe bench profile report model engine eval tune track dataset help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "list" -d 'List the networks that can be fetched'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "fetch" -d 'Fetch a network of the list into a model folder: resumed when cut off, verified by length and hash'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "inspect" -d 'Say what an ONNX file holds, and what the runtimes will say to it'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "init" -d 'Write a model folder for an ONNX file: its description with what could be read, and what had to be guessed'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and __fish_seen_subcommand_from engine" -f -a "build" -d 'Build the engine of a model and keep it where the daemon finds it. Takes minutes on a Jetson'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and __fish_seen_subcommand_from engine" -f -a "inspect" -d 'Say what an engine file is, without loading it'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and __fish_seen_subcommand_from engine" -f -a "list" -d 'List the engines that were built, and whether they are whole'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "status" -d 'Compare the machine with the configuration, and say what slows it down. Fails when something differs'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "plan" -d 'Say what `apply` would do. Fails when it would refuse'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "apply" -d 'Make the settings of the configuration, as root. What fails half-way is undone; a reboot is never confirmed'
complete -c jetwatch -n "__fish_jetwatch_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "restore" -d 'Give back what `apply` has changed, as root'

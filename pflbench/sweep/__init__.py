"""Many runs: experiments, scheduling, progress and tuning."""

"""The surroundings of a trainer, for the recipes and for scripts of your own.

::

    from posh_reward import RefuseLostWeights, StopWithCheckpoint, finish, load_processor, train

    trainer = GRPOTrainer(..., processing_class=load_processor(name),
                          callbacks=[StopWithCheckpoint(reward), RefuseLostWeights()])
    train(trainer)   # resumes as ``resume_from_checkpoint`` says, with the checkpoint's weights
    finish(trainer)  # at the very end: closes trackers and the process group

What is replaced or set in a trainer (TRL 1.16, transformers 5.17 and 5.23, vLLM 0.31, DeepSpeed
0.19), why, and the test that fails without it::

    log                         launch.make_tables_plain
        W&B's table refuses prompts with images: the run would end at its first log.
        tests/training/test_replaced.py
    vllm_generation.generate    rollouts.CheckedGenerate
        TRL expands an image's placeholder, and vLLM expands it again (trl#6294, #6401).
        tests/training/test_rollouts.py; with real vLLM tests/recipes/test_launch_vllm.py
    vllm_generation.sync_weights    rollouts.check_rollouts
        vLLM keeps images that old weights encoded (trl#7198).
        tests/training/test_replaced.py; with real vLLM test_launch_vllm.py
    vllm_generation.llm.generate, _compute_loss, _get_per_token_logps_and_entropies
                                rollouts.Canaries
        To compare weights where vLLM is awake and has just got them, and log-probabilities, which
        TRL compares only with its importance correction. test_launch_vllm.py
    _load_best_model, _load_from_checkpoint
                                resume.load_best_by_any_name, load_weights
        transformers loads by names that a saved Qwen2.5-VL does not have (QwenLM/Qwen3-VL#1763).
        tests/training/test_saving.py, test_resume.py
    optimizer.step              stopping.StopWithCheckpoint, under DeepSpeed
        It steps before on_pre_optimizer_step: a batch without any score would move the weights.
        tests/training/test_zero3.py
    _step, _get_train_sampler   resume.continue_sampling
        A resumed run would repeat the order of the first epoch, out of step with its batches.
        tests/training/dapo/test_sampling.py
    _last_loaded_step           dapo.trainer.DapoTrainer
        A second round of dynamic sampling would find vLLM's weights dropped by its sleep.
        tests/training/test_replaced.py
    grpo_trainer.VLLMGeneration dapo.trainer.DapoTrainer
        TRL sizes its vLLM for the batch trained on; dynamic sampling generates a larger one.
        tests/training/dapo/test_sampling.py
    methods that DapoTrainer overrides
        Dynamic sampling and span credit, which TRL lacks (trl#3708, #7331).
        tests/training/dapo/test_sampling.py, test_trainer.py
    inv_freq buffers            rotary.ExactRotary
        DeepSpeed's zero.Init rounds them. tests/training/test_launch.py, test_zero3.py
    the progress callback       launch.Headlines
        One short line per step instead of thirty figures. tests/recipes/test_smoke.py
"""
